import { computed } from "@preact/signals";
import { parts, tongue } from ".";
import { type ComparingWords, en } from "./comparing-en";
import { zh } from "./comparing-zh";

const TONGUES: Partial<Record<string, ComparingWords>> = { en, zh };

export const comparing = computed(() => parts.value.comparing ?? TONGUES[tongue.value] ?? en);
