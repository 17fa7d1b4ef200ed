// Formulas in MathML, which browsers draw themselves, from a little TeX: letters, numbers, _ and ^ with {…}, \frac{…}{…},
// √{…}, \over{…} (a line above), ∑_{…} and ∏_{…}^{…} with their limits below and above, "quoted" words.
import type { ComponentChild, VNode } from "preact";

const TOKEN = /"[^"]*"|\\frac|\\over|[∑∏√]|\p{N}+(?:\.\p{N}+)?(?:e[−-]?\p{N}+)?|\p{L}[\p{M}°′]*|\S/gu;

export function Tex({ of, block = false }: { of: string; block?: boolean }) {
  return <math display={block ? "block" : "inline"}>{new Parser(of).row()}</math>;
}

class Parser {
  private readonly tokens: string[];
  private at = 0;

  constructor(text: string) {
    this.tokens = text.match(TOKEN) ?? [];
  }

  row(): VNode {
    const parts: ComponentChild[] = [];
    while (this.at < this.tokens.length && this.tokens[this.at] !== "}") parts.push(this.scripted());
    return <mrow>{parts}</mrow>;
  }

  // {…}, or the one thing that follows
  private group(): VNode {
    if (this.tokens[this.at] !== "{") return this.atom();
    this.at++;
    const row = this.row();
    this.at++;
    return row;
  }

  private scripted(): VNode {
    const isSum = "∑∏".includes(this.tokens[this.at]!);
    const base = this.atom();
    let below: VNode | undefined;
    let above: VNode | undefined;
    for (let sign = this.tokens[this.at]; sign === "_" || sign === "^"; sign = this.tokens[this.at]) {
      this.at++;
      if (sign === "_") below = this.group();
      else above = this.group();
    }
    if (isSum && below) return above ? <munderover>{base}{below}{above}</munderover> : <munder>{base}{below}</munder>;
    if (below && above) return <msubsup>{base}{below}{above}</msubsup>;
    if (below) return <msub>{base}{below}</msub>;
    return above ? <msup>{base}{above}</msup> : base;
  }

  private atom(): VNode {
    const token = this.tokens[this.at++]!;
    if (token === "{") {
      this.at--;
      return this.group();
    }
    if (token === "\\frac") return <mfrac>{this.group()}{this.group()}</mfrac>;
    if (token === "\\over") return <mover>{this.group()}<mo>¯</mo></mover>;
    if (token === "√") return <msqrt>{this.group()}</msqrt>;
    if (token.startsWith('"')) return <mtext>{token.slice(1, -1)}</mtext>;
    if (token.endsWith("\u0302")) return <mover accent><mi>{token[0]}</mi><mo>^</mo></mover>;
    if (token === ",") return <mo separator>,</mo>;
    if (/^\p{L}/u.test(token)) return <mi>{token}</mi>;
    return /^\p{N}/u.test(token) ? <mn>{token}</mn> : <mo>{token}</mo>;
  }
}
