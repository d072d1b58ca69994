use std::path::Path;

use linfa::ParamGuard;

use super::sensitivity::driving_error;
use super::session::Session;
use super::{Outcome, StageError};
use crate::precision::LayerId;
use crate::report::{FileError, SensitivityRow, SpaceFile, read_csv};
use crate::space::{LayerErrors, PairError, PruneParams, Space, SpaceSize, cluster};

/// Prunes pairs and groups layers.
pub(super) fn run(session: &Session<'_>) -> Result<Outcome, StageError> {
    let rows: Vec<SensitivityRow> = read_csv(&session.file("sensitivity.csv"))?;
    let space = space(session, &rows)?;
    let path = session.file("space.yaml");
    SpaceFile::new(space.clone(), session.fingerprint.clone()).write(&path)?;
    let summary = format!(
        "{} layers in {} groups: {} maps, {} after pruning, {} to search",
        space.n_layers(),
        space.groups().len(),
        size(space.size_before()),
        size(space.size_pruned()),
        size(space.size())
    );
    Ok(Outcome { files: vec![path], summary: vec![summary] })
}

/// Reads the groups back, for the session's model.
pub(super) fn read(session: &Session<'_>) -> Result<Space, StageError> {
    let path = session.file("space.yaml");
    let space = read_space(&path)?;
    if space.n_layers() != session.n_layers() {
        let (found, expected) = (space.n_layers(), session.n_layers());
        let message = format!("it has {found} layers, but the model has {expected}");
        return Err(FileError::content(&path, "", message).into());
    }
    Ok(space)
}

/// Reads the groups of a `space.yaml`, whatever model they are for.
///
/// # Errors
/// [`FileError`] when the file cannot be read or holds no space.
pub fn read_space(path: &Path) -> Result<Space, FileError> {
    Ok(SpaceFile::read(path)?.space)
}

fn space(session: &Session<'_>, rows: &[SensitivityRow]) -> Result<Space, StageError> {
    let spec = &session.job.search_space;
    let prune = PruneParams { tolerance: spec.prune.tolerance };
    let of_layer = |layer: usize| {
        let points: Vec<PairError> = rows
            .iter()
            .filter(|row| row.layer == layer)
            .map(|row| PairError { pair: row.pair, e_o: driving_error(row, spec.sensitivity.metric) })
            .collect();
        LayerErrors::pruned(LayerId(layer), &points, prune)
    };
    let layers = (0..session.n_layers()).map(of_layer).collect::<Result<Vec<_>, _>>()?;
    let clustering = cluster(&layers, &spec.cluster.params().check()?)?;
    Ok(Space::of_clusters(spec.pairs.expand(), clustering)?)
}

/// `15,625` maps where the count is small, `10^28.6` where it is not.
fn size(size: SpaceSize) -> String {
    match size.exact {
        Some(count) if count < 1_000_000 => count.to_string(),
        _ => format!("10^{:.1}", size.log10),
    }
}
