import { Bar } from "./parts/bar";
import { Embedded } from "./parts/embedded";
import { Header } from "./parts/header";
import { Help } from "./parts/help";
import { StackMap } from "./parts/stack-map";
import { Timeline } from "./parts/timeline";
import { Tour } from "./parts/tour";
import { Viewer } from "./parts/viewer";
import { onViewerKey } from "./keys";
import { announcement, isEmbedded } from "./state";

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
      <Tour />
      <Help />
      <div role="status" class="unseen" id="status">
        {announcement.value}
      </div>
    </>
  );
}
