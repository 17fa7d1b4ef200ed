"""The dictionary of the toy corpus. qtx entries are stems or complete words; the grammar adds endings."""


def table(text: str) -> list[list[str]]:
    return [row(entry) for entry in text.split(",")]


def row(text: str) -> list[str]:
    return text.split()


# English singular, English plural, qtx. The living are of the class -a, things of the class -o.
LIVING = table("""
    dog dogs kavu, cat cats mire, horse horses ruko, bird birds pilu, wolf wolves hargu, boy boys telo,
    girl girls tela, man men gardu, woman women garda, child children nipo, king kings rego,
    queen queens rega, friend friends amilu, teacher teachers docto, sister sisters sora,
    brother brothers fratu
""")
THINGS = table("""
    house houses dome, table tables tabla, book books libru, tree trees boska, apple apples pomu,
    garden gardens horte, river rivers fluva, boat boats barke, bridge bridges ponte, letter letters skriba,
    window windows vitru, door doors ushe, key keys klavi, chair chairs sedu, road roads viale,
    flower flowers floru, stone stones petra, hat hats kapelu, mountain mountains montu, school schools skole
""")
ADJECTIVES = table("""
    red rud, old vet, new nov, small mik, big grun, white alb, black nigr, green verd, blue azul, good bon,
    bad mal, young yun, happy fel, sad trist, long lang, clean pur, heavy grav, beautiful bel
""")
# English base, third person, past, qtx stem.
TRANSITIVE = table("""
    see sees saw vid, love loves loved am, find finds found trov, buy buys bought kup, sell sells sold vend,
    carry carries carried port, want wants wanted vol, know knows knew sav, follow follows followed folg,
    paint paints painted pint, hear hears heard aud, break breaks broke romp, hold holds held ten,
    forget forgets forgot oblit
""")
INTRANSITIVE = table("""
    sleep sleeps slept dorm, sing sings sang kant, dance dances danced dans, laugh laughs laughed rid,
    wait waits waited aten, work works worked lab, play plays played lud
""")
MOTION = table("go goes went ir, run runs ran kur, come comes came ven, walk walks walked march")
GIVING = table("give gives gave don, send sends sent mand, show shows showed monst")
BE = ["be", "is", "was", "est"]
COST = ["cost", "costs", "cost", "kost"]
# English subject, object and possessive, qtx.
PRONOUNS = table("""
    I me my mi, you you your ti, he him his lo, she her her la, we us our nu, they them their lu
""")
NAMES = ["Anna", "Mila", "Nora", "Ida", "Hugo", "Otto", "Leo", "Marco"]
WEEKDAYS = table("""
    Monday lunda, Tuesday tuda, Wednesday mersa, Thursday torda, Friday frida, Saturday sata, Sunday sola
""")
MONTHS = table("""
    January yano, February febo, March marte, April aprile, May maie, June yune, July yule, August ago,
    September septe, October okte, November nove, December dece
""")
# qtx says these words in the opposite order.
TIMES = {
    "present": [("today", "hodi"), ("now", "imi"), ("often", "ofta"), ("every day", "diesh omno")],
    "past": [("yesterday", "yeri"), ("last week", "setash paso"), ("last year", "anush paso")],
    "future": [("tomorrow", "mani"), ("next week", "setash sekve"), ("next year", "anush sekve")],
}
# English preposition: the qtx case ending, and the postposition if there is one.
PLACES = {
    "in": ("sh", ""),
    "on": ("sh", "po"),
    "under": ("sh", "ab"),
    "behind": ("sh", "ret"),
    "near": ("n", "apu"),
}
CONJUNCTIONS = table("and e, but ma, because kar")

UNITS = row("""
    one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen
    eighteen nineteen
""")
TENS = row("twenty thirty forty fifty sixty seventy eighty ninety")
QTX_UNITS = row("un du tri kva pem sek sep ok nav")
