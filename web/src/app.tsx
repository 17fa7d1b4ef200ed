import { Bar } from "./parts/bar";
import { Embedded } from "./parts/embedded";
import { Header } from "./parts/header";
import { Help } from "./parts/help";
import { StackMap } from "./parts/stack-map";
import { Timeline } from "./parts/timeline";
import { later } from "./parts/later";
import { Viewer } from "./parts/viewer";
import { onViewerKey } from "./keys";
import { announcement, isEmbedded, tourStep } from "./state";

const Tour = later(async () => (await import("./tour/tour")).Tour);

export function App() {
  if (isEmbedded.value) return <Embedded />;
  return (
    <>
      <Header />
      <main>
        <Bar />
        <div class="look" onKeyDown={onViewerKey}>
          <Timeline />
          <div class="columns">
            <StackMap />
            <Viewer />
          </div>
        </div>
      </main>
      {tourStep.value >= 0 && <Tour />}
      <Help />
      <div role="status" class="unseen" id="status">
        {announcement.value}
      </div>
    </>
  );
}
