// What went wrong, in the language of the page. The server names its reasons; what it does not name is shown as it is.
import { Failed } from "./api";
import { words } from "./words";

export interface Problem {
  message: string;
  reason: string;
  values: Record<string, string | number>;
}

export function problemOf(error: unknown): Problem {
  if (error instanceof Failed) return error;
  return { message: error instanceof Error ? error.message : String(error), reason: "page", values: {} };
}

export function tellProblem({ message, reason, values }: Problem): string {
  const t = words.value;
  const own: Record<string, string> = { unreachable: t.unreachable, saved: t.savedOnly, missing: t.handOut.recordedModel };
  return own[message] ?? t.problems[reason]?.({ ...values, message }) ?? t.serverSays(message);
}
