//! The words of the problems: who, where, and what may happen to the things that are counted.
//!
//! In the sentences `{name}` is the person, `{a}` and `{b}` the two numbers of an opening, `{n}` the number
//! of any other step.

/// How the first count comes about.
#[derive(Clone, Copy)]
pub(super) enum Start {
    /// `a` times `b`.
    Product,
    /// `a` plus `b`.
    Sum,
}

/// A first sentence.
pub(super) struct Opening {
    pub(super) start: Start,
    pub(super) text: &'static str,
}

/// The last sentences: a division with what one share is called, a price, or only the count.
#[derive(Clone, Copy)]
pub(super) struct Fate {
    pub(super) share: &'static str,
    pub(super) each: &'static str,
    pub(super) worth: &'static str,
    pub(super) total: &'static str,
}

/// One place where things are counted. Three gains and three losses: no problem has more than three changes.
pub(super) struct Setting {
    pub(super) items: &'static str,
    pub(super) openings: [Opening; 2],
    pub(super) gains: [&'static str; 3],
    pub(super) losses: [&'static str; 3],
    pub(super) half: &'static str,
    pub(super) fate: Fate,
}

/// The people.
pub(super) const NAMES: [&str; 24] = [
    "Ada", "Bruno", "Carla", "Dario", "Elena", "Farid", "Greta", "Hugo", "Ines", "Jonas", "Keiko", "Liam",
    "Mona", "Nadia", "Oscar", "Priya", "Quinn", "Rosa", "Samir", "Tara", "Umar", "Vera", "Wendy", "Yusuf",
];

/// The places.
pub(super) const SETTINGS: [&Setting; 10] =
    [&ORCHARD, &LIBRARY, &BAKERY, &BEADS, &FARM, &STAMPS, &GARDEN, &PRINTER, &FERRY, &SCHOOL];

static ORCHARD: Setting = Setting {
    items: "apples",
    openings: [
        Opening {
            start: Start::Product,
            text: "{name} fills {a} crates with {b} apples each at the orchard.",
        },
        Opening {
            start: Start::Sum,
            text: "{name} picks {a} red apples and {b} green apples at the orchard.",
        },
    ],
    gains: [
        "A neighbor brings {n} more apples.",
        "{name} picks another {n} apples before dinner.",
        "The children collect {n} apples from the grass and add them.",
    ],
    losses: [
        "The birds spoil {n} of the apples.",
        "{name} gives {n} apples to the school kitchen.",
        "{n} apples are pressed into juice.",
    ],
    half: "Half of the apples go to the cider mill.",
    fate: Fate {
        share: "{name} packs the rest into {n} baskets with the same number in each. How many apples are in one basket?",
        each: "basket",
        worth: "{name} sells the rest at {n} dollars an apple. How many dollars does {name} take in?",
        total: "How many apples are left in the end?",
    },
};

static LIBRARY: Setting = Setting {
    items: "books",
    openings: [
        Opening {
            start: Start::Product,
            text: "The town library has {a} shelves of travel books with {b} books on each shelf, and {name} looks after them.",
        },
        Opening {
            start: Start::Sum,
            text: "{name} looks after {a} atlases and {b} travel books at the town library.",
        },
    ],
    gains: [
        "A retired teacher donates {n} books.",
        "{name} orders {n} new books.",
        "Readers return {n} books that were out on loan.",
    ],
    losses: [
        "Readers borrow {n} of the books.",
        "{name} sends {n} worn books to be bound again.",
        "{n} books are lent to the next town.",
    ],
    half: "Half of the books move to the new branch.",
    fate: Fate {
        share: "{name} spreads the books evenly over {n} tables. How many books lie on each table?",
        each: "table",
        worth: "A dealer offers {n} dollars for every book. How many dollars would all the books bring?",
        total: "How many books does {name} look after now?",
    },
};

static BAKERY: Setting = Setting {
    items: "rolls",
    openings: [
        Opening { start: Start::Product, text: "{name} bakes {a} trays of {b} rolls before sunrise." },
        Opening { start: Start::Sum, text: "{name} bakes {a} rye rolls and {b} wheat rolls before sunrise." },
    ],
    gains: [
        "A second batch adds {n} rolls.",
        "The apprentice brings {n} rolls from the other oven.",
        "{name} finds {n} rolls still warm in the back room.",
    ],
    losses: [
        "The hotel collects {n} rolls.",
        "{n} rolls are burnt and thrown away.",
        "{name} sets {n} rolls aside for the shelter.",
    ],
    half: "Half of the rolls are sold before eight.",
    fate: Fate {
        share: "{name} puts the rest into {n} bags with the same number in each. How many rolls are in one bag?",
        each: "bag",
        worth: "The rest are sold at {n} dollars a roll. How many dollars do they bring?",
        total: "How many rolls are left?",
    },
};

static BEADS: Setting = Setting {
    items: "beads",
    openings: [
        Opening { start: Start::Product, text: "{name} buys {a} strings of {b} glass beads for a workshop." },
        Opening { start: Start::Sum, text: "{name} buys {a} blue beads and {b} white beads for a workshop." },
    ],
    gains: [
        "A friend sends {n} beads by mail.",
        "{name} discovers {n} beads in an old drawer.",
        "The craft shop adds {n} beads for free.",
    ],
    losses: [
        "{n} beads roll under the floor and are lost.",
        "{name} uses {n} beads for a necklace.",
        "A pupil takes {n} beads home.",
    ],
    half: "Half of the beads are put away for the winter class.",
    fate: Fate {
        share: "{name} divides the beads equally among {n} pupils. How many beads does each pupil get?",
        each: "pupil",
        worth: "The beads are worth {n} dollars apiece. How many dollars are they worth together?",
        total: "How many beads can {name} still use?",
    },
};

static FARM: Setting = Setting {
    items: "eggs",
    openings: [
        Opening {
            start: Start::Product,
            text: "{name} keeps {a} hens, and each of them lays {b} eggs in a month.",
        },
        Opening {
            start: Start::Sum,
            text: "{name} gathers {a} eggs from the old barn and {b} eggs from the new barn.",
        },
    ],
    gains: [
        "A cousin drops off {n} eggs.",
        "{name} gathers {n} eggs that were hidden in the hay.",
        "The neighbor trades {n} eggs for a sack of corn.",
    ],
    losses: [
        "{n} eggs crack on the way to the house.",
        "{name} bakes cakes with {n} eggs.",
        "{name} gives {n} eggs to the fire station.",
    ],
    half: "Half of the eggs are kept for hatching.",
    fate: Fate {
        share: "The eggs are laid into {n} cartons, equally full. How many eggs are in each carton?",
        each: "carton",
        worth: "A restaurant pays {n} dollars for every egg. How many dollars does {name} receive?",
        total: "How many eggs does {name} have at the end?",
    },
};

static STAMPS: Setting = Setting {
    items: "stamps",
    openings: [
        Opening {
            start: Start::Product,
            text: "{name} owns an album of {a} pages with {b} stamps on each page.",
        },
        Opening {
            start: Start::Sum,
            text: "{name} owns {a} stamps from islands and {b} stamps from mountain countries.",
        },
    ],
    gains: [
        "An uncle leaves {name} {n} stamps.",
        "{name} wins {n} stamps at an auction.",
        "A pen friend mails {n} stamps.",
    ],
    losses: [
        "{name} swaps {n} stamps for a rare coin.",
        "{n} stamps are ruined by damp.",
        "{name} lends {n} stamps to a museum.",
    ],
    half: "Half of the stamps are given to a younger sister.",
    fate: Fate {
        share: "{name} sorts the stamps into {n} boxes of equal size. How many stamps are in each box?",
        each: "box",
        worth: "A collector pays {n} dollars for every stamp. How many dollars is that?",
        total: "How many stamps does {name} have now?",
    },
};

static GARDEN: Setting = Setting {
    items: "tulip bulbs",
    openings: [
        Opening { start: Start::Product, text: "{name} plants {a} rows of {b} tulip bulbs in the park." },
        Opening {
            start: Start::Sum,
            text: "{name} plants {a} yellow and {b} purple tulip bulbs in the park.",
        },
    ],
    gains: [
        "The nursery delivers {n} extra tulip bulbs, and all of them are planted.",
        "{name} adds {n} tulip bulbs along the path.",
        "Volunteers plant {n} tulip bulbs by the pond.",
    ],
    losses: [
        "Mice eat {n} of the tulip bulbs.",
        "{n} tulip bulbs rot in the wet soil.",
        "{name} digs up {n} tulip bulbs for a friend.",
    ],
    half: "Half of the tulip bulbs are moved to the castle garden.",
    fate: Fate {
        share: "In autumn {name} lifts them and fills {n} sacks equally. How many tulip bulbs are in each sack?",
        each: "sack",
        worth: "The city values them at {n} dollars a bulb. How many dollars are they worth?",
        total: "How many tulip bulbs are in the park now?",
    },
};

static PRINTER: Setting = Setting {
    items: "posters",
    openings: [
        Opening { start: Start::Product, text: "{name} prints {a} stacks of {b} posters for the fair." },
        Opening { start: Start::Sum, text: "{name} prints {a} large and {b} small posters for the fair." },
    ],
    gains: [
        "The mayor asks for {n} more posters, and they are printed at once.",
        "{name} finds {n} posters from a test run that are good enough.",
        "A partner shop hands over {n} posters.",
    ],
    losses: [
        "{n} posters are smudged and recycled.",
        "{name} hangs {n} posters in the station.",
        "The theater picks up {n} posters.",
    ],
    half: "Half of the posters are mailed to the villages.",
    fate: Fate {
        share: "{n} helpers share the posters equally. How many posters does each helper carry?",
        each: "helper",
        worth: "Visitors buy all of them for {n} dollars each. How many dollars is that?",
        total: "How many posters are still in the shop?",
    },
};

static FERRY: Setting = Setting {
    items: "passengers",
    openings: [
        Opening {
            start: Start::Product,
            text: "A ferry has {a} rows of seats, and {b} passengers sit in each row when captain {name} leaves the harbor.",
        },
        Opening {
            start: Start::Sum,
            text: "When captain {name} leaves the harbor, {a} passengers stand on deck and {b} passengers sit inside.",
        },
    ],
    gains: [
        "At the first island {n} passengers come aboard.",
        "A school group of {n} passengers joins.",
        "{n} passengers change over from a broken boat.",
    ],
    losses: [
        "At the lighthouse {n} passengers get off.",
        "{n} passengers leave for the beach.",
        "A smaller boat takes {n} passengers away.",
    ],
    half: "Half of the passengers leave at the market pier.",
    fate: Fate {
        share: "The passengers spread evenly over {n} decks. How many passengers are on each deck?",
        each: "deck",
        worth: "Every passenger still aboard pays {n} dollars. How many dollars does {name} collect?",
        total: "How many passengers are aboard now?",
    },
};

static SCHOOL: Setting = Setting {
    items: "pencils",
    openings: [
        Opening {
            start: Start::Product,
            text: "{name} opens {a} boxes with {b} pencils in each for the art class.",
        },
        Opening {
            start: Start::Sum,
            text: "{name} lays out {a} soft pencils and {b} hard pencils for the art class.",
        },
    ],
    gains: [
        "The principal brings {n} pencils from the office.",
        "{name} buys {n} pencils on sale.",
        "Parents donate {n} pencils.",
    ],
    losses: [
        "{n} pencils break.",
        "{name} hands {n} pencils to the class next door.",
        "The pupils lose {n} pencils on a trip.",
    ],
    half: "Half of the pencils are locked away for the exam.",
    fate: Fate {
        share: "{name} shares the pencils equally among {n} desks. How many pencils lie on each desk?",
        each: "desk",
        worth: "A new pencil costs {n} dollars. How many dollars would it take to buy all of these again?",
        total: "How many pencils are left for the class?",
    },
};
