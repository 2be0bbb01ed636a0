"""The words of the embedded sentences. No form is in two of the lists, and none is singular and plural."""

_PERSONS = """
actor artist aunt author baker banker barber bishop boy bride brother builder butcher captain carpenter
child/children clerk colonel cousin critic dancer daughter dentist doctor driver duchess duke editor
emperor engineer farmer father fisherman/fishermen foreigner friend gardener gentleman/gentlemen girl
governor grandfather guest heir hero/heroes historian hunter husband infant inspector inventor janitor
journalist juror king knight lady lawyer librarian magician man/men mayor mechanic merchant
midwife/midwives miller minister monk mother musician neighbour nephew niece novelist nun nurse officer
orphan painter passenger pilot pirate poet policeman/policemen postman/postmen priest prince princess
professor queen reporter sailor salesman/salesmen scholar scientist sculptor servant shepherd singer
sister soldier son student surgeon tailor teacher thief/thieves tourist traveller uncle violinist waiter
widow wife/wives witch witness woman/women writer
"""
_THINGS = """
apple arrow axe bag barrel basket bell bench bicycle blanket boat bolt book boot bottle bowl box bracelet
brick brush bucket button cabinet cake candle canoe carpet carriage cart chain chair chest clock coat coin
crown cup cupboard curtain cushion desk diary dish door drawer dress drum engine envelope feather fence
flag flute fork glove guitar hammer harp hat helmet hook jar jewel kettle key knife/knives ladder lamp
lantern letter lid loaf/loaves lock map mirror mug necklace needle oar painting pan pencil
photograph piano picture pillow pipe plate pot purse ring rope rug saddle scarf/scarves shelf/shelves ship
shoe sofa spoon statue stool suitcase sword table tent toy tray trumpet umbrella vase violin wagon wallet
wheel whistle window
"""
_PLACES = """
airport alley attic bakery balcony bank barn bay beach bridge castle cathedral cave cellar cemetery chapel
church city cliff college corridor cottage courtyard creek desert district factory farm field forest fort
fountain gallery garage garden gate glacier hall harbour hill hospital hotel house inn island kitchen
laboratory lake library lighthouse mansion market meadow mill monastery mountain museum office orchard
palace park path pharmacy pier pond port prison quarry ranch restaurant river road roof room school shop
shore square stable stadium staircase station street studio swamp temple terrace theatre tower town tunnel
university valley vault village vineyard wall warehouse waterfall wharf/wharves yard zoo
"""
_ACTS = """
admire adore avoid describe enjoy examine find forget ignore know like love mention miss need notice
observe praise prefer recall recognize remember see want watch
"""
_STATES = """
adjoin block brighten conceal cover decorate dominate face flank obscure overlook protect resemble
surround touch
"""
_ADJECTIVES = """
ancient beautiful big black blue bright broken brown busy cheap clean clever cold curious dark dirty dusty
elegant empty expensive famous foreign forgotten fragile friendly gentle golden gray green heavy huge
humble large little lonely lovely modern modest mysterious narrow new noisy odd old pale plain pretty
proud quiet rare red remote rich round rusty silent silver simple small splendid strange sturdy tall tiny
ugly white wide wonderful yellow young
"""
_REPOSES = (
    "arrive complain dream eat laugh leave rest shout sing sleep smile sneeze snore speak wait weep work"
)

ADVERBS = ("always", "certainly", "never", "often", "perhaps", "probably", "rarely", "still", "usually")
DETERMINERS = ("her", "his", "my", "our", "the", "their", "your")

Forms = tuple[str, str]  # of a noun its singular and plural, of a verb what goes with either


def _with_s(word: str) -> str:
    if word.endswith(("ch", "s", "sh", "x", "z")):
        return word + "es"
    if word.endswith("y") and word[-2] not in "aeou":
        return word[:-1] + "ies"
    return word + "s"


def _nouns(text: str) -> tuple[Forms, ...]:
    pairs = (entry.partition("/") for entry in text.split())
    return tuple((singular, plural or _with_s(singular)) for singular, _, plural in pairs)


def _verbs(text: str) -> tuple[Forms, ...]:
    return tuple((_with_s(base), base) for base in text.split())


NOUNS = {"person": _nouns(_PERSONS), "thing": _nouns(_THINGS), "place": _nouns(_PLACES)}
ACTS, STATES, REPOSES = map(_verbs, (_ACTS, _STATES, _REPOSES))
ADJECTIVES = tuple(_ADJECTIVES.split())
IS_PLURAL = {
    form: bool(index) for pairs in NOUNS.values() for pair in pairs for index, form in enumerate(pair)
}
