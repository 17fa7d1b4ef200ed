import { effect } from "@preact/signals";
import { render } from "preact";
import { saved } from "./api";
import { site } from "./site";
import { App } from "./app";
import { dark } from "./colours";
import { keepFirstStep } from "./first-look";
import { watchServer } from "./health";
import { onPageKey } from "./keys";
import { narrow, phase } from "./state";
import { start } from "./translate";
import { keepAddress, readAddress } from "./url";
import { TONGUES, loadWords, tongue, words } from "./words";

const root = document.documentElement;
effect(() => {
  root.dataset.theme = dark.value ? "dark" : "light";
});
effect(() => {
  root.dataset.state = phase.value;
});
effect(() => {
  root.lang = TONGUES[tongue.value].tag;
  document.title = words.value.title;
});

const small = matchMedia("(max-width: 640px)");
narrow.value = small.matches;
small.addEventListener("change", (event) => (narrow.value = event.matches));

addEventListener("keydown", onPageKey);

// Another address was typed or pasted here; what the page writes there itself does not come back.
if (!saved || site) addEventListener("hashchange", () => location.reload());

readAddress();
keepAddress();
void loadWords().then(() => {
  render(<App />, document.getElementById("page")!);
  void start();
  watchServer();
  keepFirstStep();
});
