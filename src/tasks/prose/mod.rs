//! A small grammar of plain sentences: filler for retrieval, and stories.

mod words;

use rand::Rng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use super::random::pick;
use words::{NOTICES, PEOPLE, TIMES, TOPICS};

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
        let mut text = String::new();
        for (index, sentence) in self.sentences(n).iter().enumerate() {
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

    /// The first `n` sentences.
    pub(super) fn sentences(&mut self, n: usize) -> &[String] {
        while self.sentences.len() < n {
            let sentence = self.next_sentence();
            self.sentences.push(sentence);
        }
        &self.sentences[..n]
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

    /// A subject and what it did. Subjects come round again in a paragraph, actions do not: it has at most
    /// ten clauses.
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
