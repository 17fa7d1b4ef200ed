"""How often a translation says protected content twice, loses it or changes its order.

    python benchmarks/kept_content.py [--model en-de] [--show]

Sentences of documentation, in HTML and Markdown, with code, keys, links and images. Each has a pattern of words that a
model would say if it took the content for words: outside of the content, they count as said twice."""

import argparse
import re
from collections import Counter
from typing import NamedTuple

import headway
from headway.documents import segment_translator, translate_html
from headway.translate.options import TranslateOptions

KEPT = re.compile(
    r"<(?P<name>code|kbd|samp|var|tt|span)\b[^>]*>.*?</(?P=name)>|<img[^>]*>|`[^`]+`|!\[[^\]]*\]\([^)]*\)|\]\([^)]*\)"
)


class Case(NamedTuple):
    target: str
    text: str
    echo: str = ""  # words that would be the content's, translated


CASES = [
    Case("de", "Press <kbd>Enter</kbd> to continue.", "enter|eingab|eintret|eintrag|geben sie"),
    Case("de", "<code>print</code> function", "druck|print"),
    Case("de", "The <code>print</code> function writes text to the screen.", "druck|print"),
    Case("de", "Use the <code>open</code> function to read a file.", "offen|öffn|open"),
    Case("de", "Press <kbd>Ctrl</kbd>+<kbd>C</kbd> to stop the program.", "ctrl|strg"),
    Case("de", "Hold <kbd>Shift</kbd> and click the left mouse button.", "schicht|umschalt|shift"),
    Case("de", "Type <code>exit</code> and press <kbd>Return</kbd>.", "ausgang|ausfahrt|exit|rückkehr|zurück|return"),
    Case("de", "The variable <var>count</var> holds the number of lines.", "zähl|count"),
    Case("de", "If <var>name</var> is empty, the program asks for it.", ""),
    Case("de", "The program prints <samp>file not found</samp> and ends.", "gefunden|found"),
    Case("de", "Set <code>timeout</code> to 30 and <code>retries</code> to 5.", "zeitüber|timeout|versuch"),
    Case("de", "The <code>for</code> loop ends when the list is empty.", ""),
    Case("de", "Call <code>close</code> when you are done.", "schließ|nah|eng|close"),
    Case("de", "Open the file <tt>start.txt</tt> in your editor.", "start"),
    Case("de", 'The product <span translate="no">Blue House</span> is new.', "blau|haus|blue"),
    Case("de", 'We use <span class="notranslate">Green Light</span> every day.', "grün|licht|green"),
    Case("de", "Click <img src='ok.png'> to save the document."),
    Case("de", "Click the button <img src='b.png'> and then <img src='c.png'>."),
    Case("de", "The <code>if</code> statement needs a condition.", ""),
    Case("de", "A <code>while</code> loop runs as long as the condition is true.", "während|weile|while"),
    Case("de", "Values of type <code>string</code> are written in quotes.", "zeichenkette|saite|string"),
    Case("de", "The method <code>get</code> returns the first entry.", "erhalten|get"),
    Case("de", "Choose <b>File</b> and then <kbd>Save</kbd>.", "speicher|rett|save"),
    Case("de", "The option <code>--force</code> removes the old files.", "zwing|gewalt|force"),
    Case("de", "<code>make install</code> copies the program to your computer.", "machen|install"),
    Case("de", "See <a href='x.html'><code>list</code></a> for more information.", "liste"),
    Case("de", "The <a href='y.html'>manual</a> explains how <code>list</code> works.", "liste"),
    Case("de", "The key <kbd>Escape</kbd> closes the window.", "flucht|entkomm|escape"),
    Case("de", "Change <code>red</code> to <code>blue</code> in the first line.", "rot|blau|blue"),
    Case("de", "The command <code>find</code> looks for files.", "find"),
    Case("de", "You can use <code>true</code>, <code>false</code> or <code>none</code>.", "wahr|falsch|kein"),
    Case("de", "Without <code>sleep</code> the computer would be too busy.", "schlaf|sleep"),
    Case("de", "Press <kbd>Tab</kbd> twice.", "tabulator|tab"),
    Case("de", "The class <code>House</code> has two methods.", "haus|house"),
    Case("de", "Errors are written to <code>log</code>.", "protokoll|log"),
    Case("de", "If you do not know the answer, press <kbd>Help</kbd>.", "hilf|help"),
    Case("de", "The field <code>date</code> must not be empty.", "datum|date"),
    Case("de", "In the menu, <kbd>Up</kbd> and <kbd>Down</kbd> move the cursor.", "hinauf|oben|unten|hinunter"),
    Case("de", "Write <code>import this</code> in the first line.", "einfuhr|import"),
    Case("de", "The server answers with <samp>Hello world</samp>.", "hallo|welt|hello"),
    Case("de", "Run `make test` before you commit.", "mach|test"),
    Case("de", "The `print` function writes a line.", "druck|print"),
    Case("de", "Use `open` to read and `close` to end.", "öffn|offen|schließ"),
    Case("de", "See [the manual](docs/manual.md) for more."),
    Case("de", "The [first chapter](one.md) explains the [most important words](words.md)."),
    Case("de", "![A red house](house.png) shows the house.", "rot"),
    Case("de", "Press `Ctrl`+`C` to stop.", "ctrl|strg"),
    Case("de", "The result is in `out.txt` and the errors are in `err.txt`."),
    Case("de", "Read [how to install](install.md) and run `setup`."),
    Case("de", "Set `size` to 10 in `config.json`.", "größe|size"),
    Case("en", "Drücken Sie <kbd>Eingabe</kbd>, um fortzufahren.", "input|enter|entry"),
    Case("en", "Die Funktion <code>drucke</code> schreibt eine Zeile.", "print"),
    Case("en", "Mit <kbd>Strg</kbd>+<kbd>S</kbd> speichern Sie die Datei.", "ctrl|strg"),
    Case("en", "Die Variable <var>anzahl</var> enthält die Zahl der Zeilen.", ""),
    Case("en", "Das Programm meldet <samp>Datei fehlt</samp> und endet.", "missing|lack"),
    Case("en", "Öffnen Sie die Datei <tt>anfang.txt</tt> im Editor.", "beginning|start"),
    Case("en", "Der Befehl <code>suche</code> findet Dateien.", "search|look"),
    Case("en", "Die Taste <kbd>Hilfe</kbd> öffnet ein Fenster.", "help|aid"),
    Case("en", "Ändern Sie <code>rot</code> in <code>blau</code>.", r"\bred\b|blue"),
    Case("en", "Klicken Sie auf <img src='x.png'>, um das Dokument zu speichern."),
    Case("en", "Die Funktion `öffne` liest eine Datei.", "open"),
    Case("en", "Mehr dazu steht im [Handbuch](handbuch.md)."),
    Case("en", "Wenn `name` leer ist, fragt das Programm danach."),
    Case("en", "Schreiben Sie `ende` in die letzte Zeile.", r"\bend\b"),
    Case("en", 'Das Produkt <span translate="no">Blaues Haus</span> ist neu.', "blue|house"),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="en-de")
    parser.add_argument("--engine", default="auto")
    parser.add_argument("--show", action="store_true", help="print every translation")
    options = parser.parse_args()
    translator = headway.load_translator(options.model, engine=options.engine)
    counts = Counter[str]()
    for case in CASES:
        settings = TranslateOptions(target=case.target)
        if "<" in case.text:
            output = translate_html(case.text, segment_translator(translator, settings))
        else:
            output = translator.translate([case.text], settings)[0].text
        faults = find_faults(case, output)
        counts.update(faults or ["sound"])
        if options.show:
            print(f"{', '.join(faults):8} {case.text}\n{'':8} {output}")
    print(f"{len(CASES)} sentences: {', '.join(f'{count} {name}' for name, count in counts.most_common())}")


def find_faults(case: Case, output: str) -> list[str]:
    source_kept, output_kept = ([match[0] for match in KEPT.finditer(text)] for text in (case.text, output))
    faults = []
    if Counter(source_kept) != Counter(output_kept):
        faults.append("lost")
    elif source_kept != output_kept:
        faults.append("order")
    if case.echo and re.search(rf"\b\w*(?:{case.echo})", KEPT.sub(" ", output).lower()):
        faults.append("twice")
    return faults


if __name__ == "__main__":
    main()
