import "./no_eval";

import { render } from "preact";

import { App } from "./app";
import { followKeyboard } from "./shell/visible";
import "./style.css";

followKeyboard();
render(<App />, document.getElementById("root")!);
