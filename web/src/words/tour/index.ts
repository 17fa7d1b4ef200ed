// The words of the tour, in the language of the interface.
import { computed } from "@preact/signals";
import { parts, tongue } from "..";
import { type TourWords, tourEn } from "./en";
import { tourZh } from "./zh";

export const tourWords = computed<TourWords>(() => parts.value.tour ?? (tongue.value === "zh" ? tourZh : tourEn));
