/// Why a search cannot start.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum SearchError {
    /// A table without groups.
    #[error("the {name} table has no group, expected at least one")]
    NoGroups {
        /// Which table.
        name: &'static str,
    },
    /// A group without choices.
    #[error("group {group} of the {name} table has no choice, expected at least one")]
    NoChoices {
        /// Which table.
        name: &'static str,
        /// The group, from 0.
        group: usize,
    },
    /// An entry that is no number.
    #[error("the {name} of group {group}, choice {choice} is {found}, expected a finite number")]
    Entry {
        /// Which table.
        name: &'static str,
        /// The group, from 0.
        group: usize,
        /// The choice, from 0.
        choice: usize,
        /// What was found.
        found: f64,
    },
    /// A divisor that cannot divide.
    #[error("the divisor of a cost is {found}, expected a finite number above 0")]
    Divisor {
        /// What was found.
        found: f64,
    },
    /// Widths of another model.
    #[error("{found} KV widths were given for {expected} layers, expected one each, and not all 0")]
    Widths {
        /// Widths given.
        found: usize,
        /// Layers of the space.
        expected: usize,
    },
    /// Choices not in the order of their bits.
    #[error("the choices of group {group} are not ordered by bits, expected the fewest first")]
    Unordered {
        /// The group, from 0.
        group: usize,
    },
    /// A table of another problem.
    #[error("the {name} table has {found:?} choices per group, but the space has {expected:?}")]
    Shape {
        /// Which table.
        name: &'static str,
        /// Choices per group of the table.
        found: Vec<usize>,
        /// Choices per group of the space.
        expected: Vec<usize>,
    },
    /// A limit that no configuration meets.
    #[error("`{name}` is {max} {unit}, but the smallest configuration takes {smallest}")]
    Limit {
        /// The limit's name.
        name: String,
        /// Its unit.
        unit: String,
        /// Its value.
        max: f64,
        /// The least that any configuration takes.
        smallest: f64,
    },
    /// A loss limit that is no number, or negative.
    #[error("`max_loss` is {found}, expected a finite number of at least 0")]
    MaxLoss {
        /// What was found.
        found: f64,
    },
    /// Nothing may be evaluated.
    #[error("`evaluations` is 0, expected at least 1")]
    Budget,
    /// An algorithm that needs a loss table and has none.
    #[error("`algorithm: {algorithm}` needs a table of losses per group and pair, and none was measured")]
    NoTable {
        /// The algorithm.
        algorithm: super::Algorithm,
    },
    /// An algorithm that needs layers and pairs and has only costs.
    #[error("`algorithm: {algorithm}` needs the layers and pairs of each group, and the problem has none")]
    NoLayers {
        /// The algorithm.
        algorithm: super::Algorithm,
    },
    /// A space too large to be evaluated whole.
    #[error("`algorithm: exhaustive` needs {needed} evaluations, but `evaluations` is {budget}")]
    TooLarge {
        /// Size of the space.
        needed: String,
        /// The budget.
        budget: usize,
    },
    /// Groups of layers that are not those of the costs.
    #[error("the groups of layers offer {found:?} choices, but the costs have {expected:?}")]
    Groups {
        /// Candidates per group.
        found: Vec<usize>,
        /// Choices per group of the costs.
        expected: Vec<usize>,
    },
    /// A saved search that does not fit together.
    #[error("the saved search cannot go on: {found}")]
    Saved {
        /// What does not fit.
        found: String,
    },
    /// MOEA/D parameters out of range.
    #[error(transparent)]
    Moead(#[from] super::MoeadParamsError),
}
