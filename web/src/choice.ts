// A choice inside a panel that an address and a saved page keep: in place of useState.
import { choices } from "./state";

export function useChoice(name: string, initial: number): [value: number, choose: (value: number) => void] {
  const kept = Number(choices.value[name] ?? NaN);
  const choose = (value: number) => (choices.value = { ...choices.value, [name]: String(value) });
  return [Number.isFinite(kept) ? kept : initial, choose];
}

export function useTextChoice<T extends string>(name: string, initial: T): [value: T, choose: (value: T) => void] {
  const choose = (value: T) => (choices.value = { ...choices.value, [name]: value });
  return [(choices.value[name] as T | undefined) ?? initial, choose];
}
