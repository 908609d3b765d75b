import "./no_eval";

import { render } from "preact";

import { App } from "./app";
import { followKeyboard } from "./shell/visible";
import { settleSignIn } from "./sign_in/returning";
import "./style.css";

followKeyboard();
// Before pages ask with the token that a user comes back with.
await settleSignIn();
render(<App />, document.getElementById("root")!);
