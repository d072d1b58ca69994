//! A small grammar of plain sentences: filler for retrieval, and stories.

use rand::Rng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use super::random::pick;

/// Sentences of one paragraph.
const PARAGRAPH: usize = 5;

/// Whether people walk through the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Statements only.
    Report,
    /// The same places, seen by two people whose names open the paragraphs.
    Story,
}

/// Text that grows sentence by sentence; what was written stays as it is.
pub(super) struct Prose {
    rng: ChaCha8Rng,
    form: Form,
    people: [&'static str; 2],
    topic: usize,
    /// Subjects and actions of the topic in the order in which this paragraph uses them.
    subjects: Vec<&'static str>,
    actions: Vec<&'static str>,
    /// In the order in which they come round.
    times: [&'static str; 16],
    sentences: Vec<String>,
}

impl Prose {
    pub(super) fn new(form: Form, mut rng: ChaCha8Rng) -> Self {
        let first = rng.random_range(0..PEOPLE.len());
        let second = (first + rng.random_range(1..PEOPLE.len())) % PEOPLE.len();
        let topic = rng.random_range(0..TOPICS.len());
        let people = [PEOPLE[first], PEOPLE[second]];
        let mut times = TIMES;
        times.shuffle(&mut rng);
        Self {
            rng,
            form,
            people,
            topic,
            subjects: Vec::new(),
            actions: Vec::new(),
            times,
            sentences: Vec::new(),
        }
    }

    /// The first `n` sentences, in paragraphs, with `inserted` as a sentence of its own before sentence `at`.
    pub(super) fn text(&mut self, n: usize, inserted: Option<(usize, &str)>) -> String {
        while self.sentences.len() < n {
            let sentence = self.next_sentence();
            self.sentences.push(sentence);
        }
        let mut text = String::new();
        for (index, sentence) in self.sentences[..n].iter().enumerate() {
            if index > 0 {
                text.push_str(if index.is_multiple_of(PARAGRAPH) { "\n\n" } else { " " });
            }
            if let Some((at, needle)) = inserted
                && at == index
            {
                text.push_str(needle);
                text.push(' ');
            }
            text.push_str(sentence);
        }
        if let Some((at, needle)) = inserted
            && at >= n
        {
            text.push(' ');
            text.push_str(needle);
        }
        text
    }

    fn next_sentence(&mut self) -> String {
        let opens = self.sentences.len().is_multiple_of(PARAGRAPH);
        if opens {
            self.turn_to_another_topic();
        }
        let clause = self.clause();
        match (self.form, opens, self.rng.random_range(0..4)) {
            (Form::Story, true, _) => self.arrival(&clause),
            (Form::Story, false, 0) => {
                let who = pick(&mut self.rng, &self.people);
                let how = pick(&mut self.rng, &NOTICES);
                format!("{who} {how} that {clause}.")
            }
            (_, _, 0 | 1) => format!("{}, {clause}.", capital(self.time())),
            (_, _, 2) => format!("{} {}.", capital(&clause), self.time()),
            _ => {
                let second = self.clause();
                let and = pick(&mut self.rng, &["and", "while", "and soon", "just as"]);
                format!("{}, {and} {second}.", capital(&clause))
            }
        }
    }

    /// `Late in the evening, Mara went to the harbor, where the pilots counted the boats.`
    fn arrival(&mut self, clause: &str) -> String {
        let time = self.time();
        let place = TOPICS[self.topic].place;
        let who = pick(&mut self.rng, &self.people);
        let went = pick(&mut self.rng, &["walked to", "came to", "returned to", "stopped at"]);
        format!("{}, {who} {went} {place}, where {clause}.", capital(time))
    }

    /// The next time; none comes again before fifteen others.
    fn time(&mut self) -> &'static str {
        self.times.rotate_left(1);
        self.times[0]
    }

    fn turn_to_another_topic(&mut self) {
        self.topic = (self.topic + self.rng.random_range(1..TOPICS.len())) % TOPICS.len();
        let topic = &TOPICS[self.topic];
        self.subjects = topic.subjects.to_vec();
        self.actions = topic.actions.to_vec();
        self.subjects.shuffle(&mut self.rng);
        self.actions.shuffle(&mut self.rng);
    }

    /// A subject and what it did. Subjects come round again in a paragraph, actions do not: it has at most ten clauses.
    fn clause(&mut self) -> String {
        self.subjects.rotate_left(1);
        self.actions.rotate_left(1);
        format!("{} {}", self.subjects[0], self.actions[0])
    }
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

struct Topic {
    place: &'static str,
    subjects: [&'static str; 6],
    actions: [&'static str; 10],
}

const PEOPLE: [&str; 12] = [
    "Mara", "Tobias", "Ines", "Anton", "Lucia", "Henrik", "Salma", "Viktor", "Noor", "Emil", "Paula", "Ravi",
];

const NOTICES: [&str; 6] =
    ["noticed", "wrote down", "remembered", "was glad", "heard from a friend", "could see from the window"];

const TIMES: [&str; 16] = [
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

const TOPICS: [Topic; 8] = [
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

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    fn text(form: Form, n: usize) -> String {
        Prose::new(form, ChaCha8Rng::seed_from_u64(3)).text(n, None)
    }

    #[test]
    fn text_grows_at_its_end_only() {
        for form in [Form::Report, Form::Story] {
            let long = text(form, 40);
            for n in 1..40 {
                assert!(long.starts_with(&text(form, n)));
            }
        }
    }

    #[test]
    fn sentences_are_whole_and_paragraphs_of_five() {
        for form in [Form::Report, Form::Story] {
            let text = text(form, 40);
            let paragraphs: Vec<_> = text.split("\n\n").collect();
            assert_eq!(paragraphs.len(), 8);
            for paragraph in paragraphs {
                let sentences: Vec<_> = paragraph.trim_end_matches('.').split(". ").collect();
                assert_eq!(sentences.len(), PARAGRAPH, "{paragraph}");
                assert!(sentences.iter().all(|s| s.starts_with(char::is_uppercase)), "{paragraph}");
            }
        }
    }

    #[test]
    fn a_hundred_sentences_hardly_repeat() {
        let text = text(Form::Report, 100).replace("\n\n", " ");
        let mut sentences: Vec<_> = text.split(". ").collect();
        sentences.sort_unstable();
        sentences.dedup();
        assert!(sentences.len() >= 97, "{} distinct", sentences.len());
    }

    #[test]
    fn an_inserted_sentence_stands_where_asked() {
        let mut prose = Prose::new(Form::Report, ChaCha8Rng::seed_from_u64(3));
        for at in 0..=7 {
            let with = prose.text(7, Some((at, "Needle.")));
            let sentences: Vec<_> = with.split_inclusive('.').map(str::trim).collect();
            assert_eq!(sentences.iter().position(|s| *s == "Needle."), Some(at));
            assert_eq!(sentences.len(), 8);
        }
    }
}
