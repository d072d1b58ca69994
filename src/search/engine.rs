use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::moead::Moead;
use super::nsga2::Nsga2;
use super::{Archive, Genome, Objectives, Problem, Searcher, saved};

/// One search: the problem, the budget, what is known, and the algorithm that proposes.
///
/// Plain data: serialize it at any moment, pending batch included, and go on from it later. The format must hold
/// every `f64` exactly, infinities included: YAML does, JSON does not.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(try_from = "saved::Unchecked")]
pub struct Search {
    pub(super) problem: Problem,
    pub(super) budget: usize,
    pub(super) policy: Policy,
    pub(super) memo: BTreeMap<Genome, Objectives>,
    pub(super) archive: Archive,
    pub(super) pending: Vec<Pending>,
    pub(super) done: bool,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Pending {
    pub(super) genome: Genome,
    pub(super) told: Option<Objectives>,
}

/// How the next generation is made.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Policy {
    /// A list known beforehand, as one batch.
    List(Vec<Genome>),
    Moead(Box<Moead>),
    Nsga2(Box<Nsga2>),
}

/// What a policy may look at.
pub(super) struct Known<'a> {
    pub(super) problem: &'a Problem,
    pub(super) memo: &'a BTreeMap<Genome, Objectives>,
    pub(super) archive: &'a Archive,
    /// The budget, and what is left of it.
    pub(super) budget: usize,
    pub(super) left: usize,
}

impl Known<'_> {
    pub(super) fn objectives(&self, genome: &Genome) -> Option<Objectives> {
        self.memo.get(genome).copied()
    }

    /// Violation, which rules, and whether it is known at all.
    pub(super) fn violation(&self, genome: &Genome) -> f64 {
        self.objectives(genome).map_or(f64::INFINITY, |at| self.problem.violation(at))
    }
}

impl Policy {
    /// The next generation, or nothing when the algorithm has ended.
    fn propose(&mut self, known: &Known<'_>) -> Vec<Genome> {
        match self {
            Self::List(list) => std::mem::take(list),
            Self::Moead(moead) => moead.propose(known),
            Self::Nsga2(nsga2) => nsga2.propose(known),
        }
    }

    /// Learns a generation, in the order in which it was asked.
    fn absorb(&mut self, known: &Known<'_>, generation: &[Genome]) {
        match self {
            Self::List(_) => {}
            Self::Moead(moead) => moead.absorb(known, generation),
            Self::Nsga2(nsga2) => nsga2.absorb(known, generation),
        }
    }
}

impl Search {
    pub(super) fn with_policy(problem: Problem, budget: usize, policy: Policy) -> Self {
        let (memo, archive) = (BTreeMap::new(), Archive::default());
        Self { problem, budget, policy, memo, archive, pending: Vec::new(), done: false }
    }

    /// The problem searched.
    pub fn problem(&self) -> &Problem {
        &self.problem
    }

    /// Distinct genomes that may be evaluated.
    pub fn budget(&self) -> usize {
        self.budget
    }

    /// Whether what it asks for depends on what it is told; else its genomes are fixed beforehand.
    pub fn learns(&self) -> bool {
        !matches!(self.policy, Policy::List(_))
    }

    /// Every genome evaluated, whole batches only.
    pub fn memo(&self) -> &BTreeMap<Genome, Objectives> {
        &self.memo
    }

    /// Genomes asked and not told yet, in the order asked: what a driver evaluates after it has read a saved state.
    pub fn pending(&self) -> Vec<Genome> {
        let open = self.pending.iter().filter(|pending| pending.told.is_none());
        open.map(|pending| pending.genome.clone()).collect()
    }

    /// The policy, and what it may look at.
    fn parts(&mut self) -> (&mut Policy, Known<'_>) {
        let Self { problem, memo, archive, budget, policy, .. } = self;
        let left = *budget - memo.len();
        (policy, Known { problem, memo, archive, budget: *budget, left })
    }

    /// What the policy proposes, less what is known, repeated, out of the limits or over the budget.
    fn next_generation(&mut self) -> Vec<Genome> {
        let (policy, known) = self.parts();
        let mut seen = BTreeSet::new();
        let mut proposed = policy.propose(&known);
        proposed.retain(|genome| {
            let open = known.problem.is_within_limits(genome) && !known.memo.contains_key(genome);
            open && seen.insert(genome.clone())
        });
        proposed.truncate(known.left);
        proposed
    }

    fn close_generation(&mut self) {
        let generation: Vec<Genome> = self.pending.iter().map(|pending| pending.genome.clone()).collect();
        for Pending { genome, told } in std::mem::take(&mut self.pending) {
            if let Some(objectives) = told {
                self.archive.insert(&genome, objectives);
                self.memo.insert(genome, objectives);
            }
        }
        let (policy, known) = self.parts();
        policy.absorb(&known, &generation);
        self.done = self.memo.len() >= self.budget;
    }
}

impl Searcher for Search {
    fn ask(&mut self) -> Vec<Genome> {
        if self.done || !self.pending.is_empty() {
            return Vec::new();
        }
        let batch = self.next_generation();
        self.done = batch.is_empty();
        self.pending = batch.iter().map(|genome| Pending { genome: genome.clone(), told: None }).collect();
        batch
    }

    fn tell(&mut self, evaluated: &[(Genome, Objectives)]) {
        for (genome, objectives) in evaluated {
            let open = |pending: &&mut Pending| pending.genome == *genome && pending.told.is_none();
            if let Some(pending) = self.pending.iter_mut().find(open) {
                let loss = if objectives.loss.is_nan() { f64::INFINITY } else { objectives.loss };
                pending.told = Some(Objectives { bits: self.problem.bits().of(genome), loss });
            }
        }
        if !self.pending.is_empty() && self.pending.iter().all(|pending| pending.told.is_some()) {
            self.close_generation();
        }
    }

    fn is_done(&self) -> bool {
        self.done
    }

    fn archive(&self) -> &Archive {
        &self.archive
    }

    fn evaluated(&self) -> usize {
        self.memo.len()
    }
}

/// Brings a fresh search to where an interrupted one stood, from the rows it left.
///
/// Asks, answers from `rows`, and stops at the first batch that they do not cover: returned are the genomes of that
/// batch still to be evaluated (the rest of it is told already), or nothing when the search is done. The order of
/// rows does not matter; rows that the search does not ask for are passed over.
pub fn replay(search: &mut Search, rows: &BTreeMap<Genome, Objectives>) -> Vec<Genome> {
    loop {
        let batch = search.ask();
        let known = |genome: &Genome| rows.get(genome).map(|&objectives| (genome.clone(), objectives));
        let told: Vec<_> = batch.iter().filter_map(known).collect();
        search.tell(&told);
        if told.len() < batch.len() || batch.is_empty() {
            return search.pending();
        }
    }
}
