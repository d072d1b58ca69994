//! Who scored what: the memo behind `answers.csv`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::cache::CacheKind;
use crate::job::stages::StageError;
use crate::job::stages::ledger::{hex, numerics, start_over};
use crate::job::stages::session::Session;
use crate::precision::PrecisionMap;
use crate::report::{read_csv, write_csv};

/// `answers.csv`: one map on one question.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Mark {
    /// Content key: model, scheme, cache, map and numerics of the build, hashed.
    pub(super) configuration: String,
    /// Content key: prompt, what is asked and the right answer, hashed.
    pub(super) question: String,
    /// The task.
    pub(super) task: String,
    /// The item, as its file calls it.
    pub(super) item: String,
    /// What the answer is worth, from 0 to 1.
    pub(super) score: f64,
    /// Tokens of the answer, 0 where the model chose.
    pub(super) new_tokens: usize,
}

/// Everything answered so far, by this run or an earlier one.
pub(super) struct Book {
    path: PathBuf,
    inputs: String,
    marks: Vec<Mark>,
    /// Score by configuration and question.
    known: BTreeMap<String, BTreeMap<String, f64>>,
}

impl Book {
    pub(super) fn open(session: &Session<'_>) -> Result<Self, StageError> {
        let path = session.file("answers.csv");
        let marks: Vec<Mark> = match path.exists() {
            true => read_csv(&path).map_err(|error| start_over(&path, &error))?,
            false => Vec::new(),
        };
        if let Some(mark) = marks.iter().find(|mark| !(0.0..=1.0).contains(&mark.score)) {
            return Err(StageError::Unmet {
                message: format!(
                    "`{}`: item `{}` scores {}, expected 0 to 1",
                    path.display(),
                    mark.item,
                    mark.score
                ),
                hint: Some(format!("remove `{}`, and the same command asks anew", path.display())),
            });
        }
        let scheme = session.scheme_text();
        let inputs = format!("{}\0{scheme}\0{}", session.fingerprint, numerics());
        let mut book = Self { path, inputs, marks: Vec::new(), known: BTreeMap::new() };
        book.add(marks);
        Ok(book)
    }

    /// What a configuration's rows are found by.
    pub(super) fn key(&self, kind: CacheKind, map: &PrecisionMap) -> String {
        hex(&Sha256::digest(format!("{}\0{kind}\0{map}", self.inputs)))
    }

    /// The scores of a configuration on some questions, if it has answered all of them.
    pub(super) fn scores<'q>(
        &self,
        configuration: &str,
        mut questions: impl Iterator<Item = &'q str>,
    ) -> Option<Vec<f64>> {
        let of = self.known.get(configuration);
        questions.try_fold(Vec::new(), |mut scores, question| {
            scores.push(*of?.get(question)?);
            Some(scores)
        })
    }

    pub(super) fn add(&mut self, marks: Vec<Mark>) {
        for mark in &marks {
            let of = self.known.entry(mark.configuration.clone()).or_default();
            of.insert(mark.question.clone(), mark.score);
        }
        self.marks.extend(marks);
    }

    pub(super) fn save(&self) -> Result<(), StageError> {
        Ok(write_csv(&self.path, &self.marks)?)
    }
}
