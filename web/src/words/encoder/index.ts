// The words of what encoders and decoders without a beam show, in the language of the interface.
import { computed } from "@preact/signals";
import { type Tongue, tongue } from "..";
import { type EncoderWords, encoderEn } from "./en";
import { encoderZh } from "./zh";

const TEXTS: Partial<Record<Tongue, EncoderWords>> = { en: encoderEn, zh: encoderZh };

export const encoderWords = computed(() => TEXTS[tongue.value] ?? encoderEn);
