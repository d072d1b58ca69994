use serde::{Deserialize, Serialize};

use super::Objectives;
use crate::space::{Genome, dominates, hypervolume};

/// All non-dominated points told so far, fewest bits first; of points with equal objectives, the first told.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Archive(Vec<(Genome, Objectives)>);

impl Archive {
    /// Takes the point in unless a member dominates or equals it, and drops what it dominates; says whether it did.
    ///
    /// A point whose figures are not finite is never taken in.
    pub fn insert(&mut self, genome: &Genome, objectives: Objectives) -> bool {
        let point = objectives.point();
        let stays_out = |member: &(Genome, Objectives)| {
            dominates(member.1.point(), point) || !member.1.differs_from(objectives)
        };
        if !objectives.is_finite() || self.0.iter().any(stays_out) {
            return false;
        }
        self.0.retain(|member| !dominates(point, member.1.point()));
        let place = self.0.partition_point(|member| member.1.bits < objectives.bits);
        self.0.insert(place, (genome.clone(), objectives));
        true
    }

    /// The front, fewest bits first.
    pub fn front(&self) -> &[(Genome, Objectives)] {
        &self.0
    }

    /// How many points it holds.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Least bits and least loss of any member.
    pub fn ideal(&self) -> Option<Objectives> {
        Some(Objectives { bits: self.0.first()?.1.bits, loss: self.0.last()?.1.loss })
    }

    /// Most bits and greatest loss of any member.
    pub fn nadir(&self) -> Option<Objectives> {
        Some(Objectives { bits: self.0.last()?.1.bits, loss: self.0.first()?.1.loss })
    }

    /// Area dominated inside the box that ends at `reference`, in bits × loss.
    pub fn hypervolume(&self, reference: Objectives) -> f64 {
        let points: Vec<_> = self.0.iter().map(|member| member.1.point()).collect();
        hypervolume(&points, reference.point())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn archive(points: &[(f64, f64)]) -> Archive {
        let mut archive = Archive::default();
        for (index, &(bits, loss)) in points.iter().enumerate() {
            archive.insert(&Genome::new(vec![index]), Objectives { bits, loss });
        }
        archive
    }

    #[test]
    fn the_first_of_equal_points_stays() {
        let archive = archive(&[(2.0, 1.0), (2.0, 1.0), (1.0, 3.0), (3.0, 1.0)]);
        let genomes: Vec<_> = archive.front().iter().map(|member| member.0.choices()[0]).collect();
        assert_eq!(genomes, [2, 0]);
    }

    #[test]
    fn what_is_no_number_stays_out() {
        assert!(archive(&[(2.0, f64::NAN), (2.0, f64::INFINITY)]).is_empty());
    }

    proptest! {
        #[test]
        fn no_member_dominates_or_equals_another(points in prop::collection::vec((0u8..9, 0u8..9), 0..40)) {
            let points: Vec<_> = points.into_iter().map(|(a, b)| (f64::from(a), f64::from(b))).collect();
            let archive = archive(&points);
            for two in archive.front().windows(2) {
                prop_assert!(two[0].1.bits < two[1].1.bits && two[0].1.loss > two[1].1.loss);
            }
            for &point in &points {
                prop_assert!(!archive.front().iter().any(|member| dominates(point, member.1.point())));
            }
        }
    }
}
