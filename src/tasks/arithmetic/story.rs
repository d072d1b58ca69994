use rand::Rng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use super::super::random::pick;
use super::settings::{Fate, NAMES, SETTINGS, Setting, Start};

/// A word problem, its worked solution and the number it comes to.
pub(super) struct Problem {
    pub(super) question: String,
    pub(super) solution: String,
    pub(super) answer: u64,
}

/// Draws a problem of two to five steps. Every intermediate result is a positive integer.
pub(super) fn problem(rng: &mut ChaCha8Rng) -> Problem {
    let setting = SETTINGS[rng.random_range(0..SETTINGS.len())];
    let mut story = Story::begin(setting, pick(rng, &NAMES), rng);
    let (mut gains, mut losses) = (setting.gains.to_vec(), setting.losses.to_vec());
    gains.shuffle(rng);
    losses.shuffle(rng);
    // With the opening and the ending, two to five steps.
    let changes = rng.random_range(1..=3);
    for _ in 0..changes {
        story.change(&mut gains, &mut losses, rng);
    }
    story.end(rng)
}

/// A problem half told: the count so far, the sentences, and the lines of the solution.
struct Story {
    setting: &'static Setting,
    name: &'static str,
    count: u64,
    told: Vec<String>,
    worked: Vec<String>,
}

impl Story {
    fn begin(setting: &'static Setting, name: &'static str, rng: &mut ChaCha8Rng) -> Self {
        let opening = &setting.openings[rng.random_range(0..setting.openings.len())];
        let (a, b) = (rng.random_range(3..=12), rng.random_range(6..=24));
        let (sign, count) = match opening.start {
            Start::Product => ("*", a * b),
            Start::Sum => ("+", a + b),
        };
        let mut story = Self { setting, name, count, told: Vec::new(), worked: Vec::new() };
        let sentence = opening.text.replace("{a}", &a.to_string()).replace("{b}", &b.to_string());
        story.tell(&sentence);
        story.worked.push(format!("At first there are {a} {sign} {b} = {count} {}.", setting.items));
        story
    }

    /// Adds a sentence, the person's name filled in.
    fn tell(&mut self, sentence: &str) {
        self.told.push(sentence.replace("{name}", self.name));
    }

    /// Adds to the count, takes from it, or halves it.
    fn change(&mut self, gains: &mut Vec<&str>, losses: &mut Vec<&str>, rng: &mut ChaCha8Rng) {
        match rng.random_range(0..5) {
            0 | 1 if self.count >= 4 => self.lose(losses, rng),
            2 if self.count >= 4 && self.count.is_multiple_of(2) && !self.halved() => self.halve(),
            _ => self.gain(gains, rng),
        }
    }

    fn gain(&mut self, gains: &mut Vec<&str>, rng: &mut ChaCha8Rng) {
        let more = rng.random_range(3..=40);
        if let Some(sentence) = gains.pop() {
            self.step('+', more, self.count + more, sentence);
        }
    }

    fn lose(&mut self, losses: &mut Vec<&str>, rng: &mut ChaCha8Rng) {
        let fewer = rng.random_range(2..=self.count / 2);
        if let Some(sentence) = losses.pop() {
            self.step('-', fewer, self.count - fewer, sentence);
        }
    }

    fn halve(&mut self) {
        self.step('/', 2, self.count / 2, self.setting.half);
    }

    fn halved(&self) -> bool {
        self.told.iter().any(|sentence| *sentence == self.setting.half.replace("{name}", self.name))
    }

    fn step(&mut self, sign: char, by: u64, result: u64, sentence: &str) {
        self.tell(&sentence.replace("{n}", &by.to_string()));
        let then = if self.worked.len() == 1 { "Then" } else { "After that" };
        let Self { count, setting, .. } = self;
        self.worked.push(format!("{then} there are {count} {sign} {by} = {result} {}.", setting.items));
        self.count = result;
    }

    /// Asks for the count, for one share of it, or for what it is worth.
    fn end(mut self, rng: &mut ChaCha8Rng) -> Problem {
        let divisors: Vec<u64> =
            (2..=12).filter(|&n| self.count.is_multiple_of(n) && self.count > n).collect();
        let Fate { share, each, worth, total } = self.setting.fate;
        match rng.random_range(0..3) {
            0 if !divisors.is_empty() => {
                let among = divisors[rng.random_range(0..divisors.len())];
                let result = self.count / among;
                self.finish('/', among, result, share, &format!("For each {each} that"), self.setting.items)
            }
            1 => {
                let price = rng.random_range(2..=9);
                self.finish('*', price, self.count * price, worth, "Together that", "dollars")
            }
            _ => self.tell(total),
        }
        self.worked.push(format!("The answer is {}.", self.count));
        Problem { question: self.told.join(" "), solution: self.worked.join(" "), answer: self.count }
    }

    fn finish(&mut self, sign: char, by: u64, result: u64, sentence: &str, what: &str, unit: &str) {
        self.tell(&sentence.replace("{n}", &by.to_string()));
        self.worked.push(format!("{what} makes {} {sign} {by} = {result} {unit}.", self.count));
        self.count = result;
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    /// The equations `a op b = c` of a solution.
    fn equations(solution: &str) -> Vec<(u64, &str, u64, u64)> {
        let words: Vec<_> = solution.split_whitespace().collect();
        let number = |text: &str| text.trim_end_matches('.').parse().expect("a positive integer");
        words
            .windows(5)
            .filter(|window| window[3] == "=")
            .map(|window| (number(window[0]), window[1], number(window[2]), number(window[4])))
            .collect()
    }

    #[test]
    fn every_step_is_right_positive_and_goes_on_from_the_one_before() {
        let mut rng = ChaCha8Rng::seed_from_u64(7);
        for _ in 0..2000 {
            let Problem { question, solution, answer } = problem(&mut rng);
            let steps = equations(&solution);
            assert!((2..=5).contains(&steps.len()), "{solution}");
            for &(a, sign, b, c) in &steps {
                let right = match sign {
                    "+" => a + b == c,
                    "-" => a == b + c,
                    "*" => a * b == c,
                    "/" => b * c == a,
                    _ => false,
                };
                assert!(right && c > 0, "{solution}");
                assert!(question.contains(&b.to_string()) || (sign, b) == ("/", 2), "{question} {solution}");
            }
            assert!(steps.windows(2).all(|pair| pair[0].3 == pair[1].0), "{solution}");
            assert_eq!(steps.last().map(|step| step.3), Some(answer));
            assert!(solution.ends_with(&format!("The answer is {answer}.")));
        }
    }

    #[test]
    fn every_placeholder_is_filled() {
        let mut rng = ChaCha8Rng::seed_from_u64(8);
        for _ in 0..2000 {
            let Problem { question, solution, .. } = problem(&mut rng);
            assert!(!question.contains(['{', '}']) && question.ends_with('?'), "{question}");
            assert!(!solution.contains(['{', '}']), "{solution}");
        }
    }

    #[test]
    fn no_sentence_is_told_twice_in_one_problem() {
        let mut rng = ChaCha8Rng::seed_from_u64(9);
        for _ in 0..2000 {
            let question = problem(&mut rng).question;
            let mut sentences: Vec<_> = question.split(". ").collect();
            let count = sentences.len();
            sentences.sort_unstable();
            sentences.dedup();
            assert_eq!(sentences.len(), count, "{question}");
        }
    }
}
