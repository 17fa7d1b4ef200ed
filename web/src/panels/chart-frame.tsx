// What all charts have: a width that fits the page, axes with numbers and names.
import type { ComponentChildren, RefObject } from "preact";
import { useLayoutEffect, useState } from "preact/hooks";
import { type Scale, placeOn, ticksOf } from "../charts";
import { brief } from "../format";

export const MARGIN = { left: 58, right: 14, top: 12, bottom: 42 };

// The width of an element in pixels, also when it changes.
export function useWidth(element: RefObject<HTMLElement | null>, first: number): number {
  const [width, setWidth] = useState(first);
  useLayoutEffect(() => {
    const observer = new ResizeObserver(([entry]) => setWidth(Math.max(Math.floor(entry!.contentRect.width), 200)));
    observer.observe(element.current!);
    return () => observer.disconnect();
  }, []);
  return width;
}

interface Axes {
  x: Scale;
  y: Scale;
  xName: string;
  yName: string;
  children: ComponentChildren;
}

export function Frame({ x, y, xName, yName, children }: Axes) {
  const middle = (y.start + y.end) / 2;
  return (
    <>
      <g class="axes" aria-hidden="true">
        {ticksOf(x, Math.max(Math.floor((x.end - x.start) / 70), 2)).map((tick) => (
          <g key={tick} transform={`translate(${placeOn(x, tick)} 0)`}>
            <line y1={y.end} y2={y.start} />
            <text y={y.start + 16} text-anchor="middle">{brief(tick)}</text>
          </g>
        ))}
        {ticksOf(y, 6).map((tick) => (
          <g key={tick} transform={`translate(0 ${placeOn(y, tick)})`}>
            <line x1={x.start} x2={x.end} />
            <text x={x.start - 6} y={4} text-anchor="end">{brief(tick)}</text>
          </g>
        ))}
        <text x={(x.start + x.end) / 2} y={y.start + 35} text-anchor="middle">{xName}</text>
        <text transform={`translate(12 ${middle}) rotate(-90)`} text-anchor="middle">{yName}</text>
      </g>
      {children}
    </>
  );
}
