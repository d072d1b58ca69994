//! The words of the grammar. Any subject of a topic may do any of its actions at any time.

/// A place, who is there, and what they do.
pub(super) struct Topic {
    pub(super) place: &'static str,
    pub(super) subjects: [&'static str; 6],
    pub(super) actions: [&'static str; 10],
}

/// Who walks through a story.
pub(super) const PEOPLE: [&str; 12] = [
    "Mara", "Tobias", "Ines", "Anton", "Lucia", "Henrik", "Salma", "Viktor", "Noor", "Emil", "Paula", "Ravi",
];

/// How they come to know of something.
pub(super) const NOTICES: [&str; 6] =
    ["noticed", "wrote down", "remembered", "was glad", "heard from a friend", "could see from the window"];

/// When things happen.
pub(super) const TIMES: [&str; 16] = [
    "early in the morning",
    "before noon",
    "after the rain had stopped",
    "late in the evening",
    "on the first day of the week",
    "during the long summer",
    "when the bells rang",
    "a few days later",
    "in the last week of March",
    "as the wind turned north",
    "on a quiet afternoon",
    "shortly before the holidays",
    "in the cold light of dawn",
    "once the road was dry",
    "at the end of the season",
    "without much noise",
];

/// Where.
pub(super) const TOPICS: [Topic; 8] = [
    Topic {
        place: "the harbor",
        subjects: [
            "the old pilot",
            "a crew of four sailors",
            "the harbor office",
            "the net maker",
            "a young deckhand",
            "the captain of the mail boat",
        ],
        actions: [
            "counted the boats along the pier",
            "mended a torn sail",
            "waited for the tide to turn",
            "painted the hull of a small ferry",
            "carried crates of salted fish ashore",
            "entered every arrival in a thick ledger",
            "coiled the wet ropes by the wall",
            "spoke about the storms of last year",
            "lit the lamp above the gate",
            "bought tar and canvas for the repairs",
        ],
    },
    Topic {
        place: "the market",
        subjects: [
            "the cheese seller",
            "a farmer from the hills",
            "the woman with the spice stall",
            "two buyers from the city",
            "the fruit merchant",
            "the keeper of the scales",
        ],
        actions: [
            "lowered the price of ripe pears",
            "stacked empty baskets under the awning",
            "argued kindly about a sack of beans",
            "wrapped the bread in brown paper",
            "swept the stones between the tables",
            "offered slices of melon to the children",
            "weighed the walnuts twice",
            "wrote the names of regular customers on a board",
            "sold the last jar of honey",
            "promised to bring more onions",
        ],
    },
    Topic {
        place: "the railway station",
        subjects: [
            "the signal keeper",
            "a conductor in a gray coat",
            "the night porter",
            "the engineer of the freight train",
            "a group of students",
            "the woman at the ticket window",
        ],
        actions: [
            "checked the clock on the platform",
            "moved the luggage to the second track",
            "read the new timetable aloud",
            "asked about the delay in the valley",
            "sat on a bench beside the coal shed",
            "found a lost umbrella",
            "oiled the hinges of the heavy doors",
            "waved a green flag",
            "drank tea from a tin cup",
            "followed the rails with tired eyes",
        ],
    },
    Topic {
        place: "the garden",
        subjects: [
            "the head gardener",
            "a boy with a watering can",
            "the beekeeper",
            "the owner of the greenhouse",
            "a retired botanist",
            "the neighbor behind the hedge",
        ],
        actions: [
            "cut the roses back to the second bud",
            "planted beans along the fence",
            "covered the seedlings with straw",
            "moved the lemon trees into the shade",
            "pulled weeds from the gravel path",
            "measured the height of the sunflowers",
            "drained the pond to clean it",
            "tied the young vines to wooden stakes",
            "kept notes about the first frost",
            "gave away cuttings of the fig tree",
        ],
    },
    Topic {
        place: "the school",
        subjects: [
            "the geography teacher",
            "the youngest class",
            "the caretaker",
            "a visiting poet",
            "the music teacher",
            "the girl in the front row",
        ],
        actions: [
            "drew a map of the northern rivers",
            "practiced a song in two voices",
            "repaired the broken globe",
            "opened every window on the south side",
            "read a story about a patient fox",
            "collected leaves for the display case",
            "learned the names of the planets",
            "cleaned the blackboard with a sponge",
            "asked why ice floats on water",
            "hung paper lanterns in the hall",
        ],
    },
    Topic {
        place: "the mountain hut",
        subjects: [
            "the guide",
            "a party of climbers",
            "the cook of the hut",
            "the ranger",
            "a shepherd with three dogs",
            "the man who kept the weather book",
        ],
        actions: [
            "melted snow for the kettle",
            "marked the trail with red paint",
            "warned of loose stones below the ridge",
            "shared bread and dried apricots",
            "watched clouds gather over the pass",
            "chopped enough wood for a week",
            "measured the wind with a small wheel",
            "rested beside the stove",
            "planned a route across the glacier",
            "told of an avalanche long ago",
        ],
    },
    Topic {
        place: "the workshop",
        subjects: [
            "the carpenter",
            "a patient apprentice",
            "the clockmaker",
            "the smith from across the yard",
            "the woman who restored violins",
            "a customer with a broken chair",
        ],
        actions: [
            "planed a board of pale ash",
            "sharpened the chisels on a wet stone",
            "glued the joints of a drawer",
            "sorted brass screws by length",
            "tested the spring of a wall clock",
            "drew the plan of a spiral stair",
            "polished the lid with oil and wool",
            "hung the saws back on their hooks",
            "measured everything once more",
            "asked for a little more light",
        ],
    },
    Topic {
        place: "the archive",
        subjects: [
            "the archivist",
            "a historian from the coast",
            "the bookbinder",
            "the clerk at the long table",
            "a student of old maps",
            "the keeper of the letters",
        ],
        actions: [
            "unrolled a chart of the salt roads",
            "copied a treaty line by line",
            "dusted the shelves of the lower room",
            "compared two versions of a letter",
            "numbered the boxes with blue ink",
            "found a pressed flower between the pages",
            "translated a note in the margin",
            "repaired the spine of a heavy register",
            "searched for the name of a forgotten mill",
            "closed the shutters against the sun",
        ],
    },
];
