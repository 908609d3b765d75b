/** AG-UI's schemas must not try to compile themselves, which the page's policy reports. */

import { config } from "zod/v4/core";

config({ jitless: true });
