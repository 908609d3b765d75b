import { session } from "../session";
import { answerIn, finish } from "./issuer";
import { options } from "./options";

/** Learns how people sign in, and ends the sign-in from which the browser comes back. */
export async function settleSignIn(): Promise<void> {
  const answer = answerIn(location.search);
  const loading = options.load();
  if (!answer) return;
  await loading;
  try {
    session.signInWith(await finish(options.issuer, answer));
  } catch (error) {
    session.fail((error as Error).message);
  }
}
