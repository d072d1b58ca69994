//! The same layers in other spaces: pruned or not, grouped or not, noise treated one way or another.

use anyhow::Result;
use kvtune::job::ClusterSpec;
use kvtune::precision::LayerId;
use kvtune::report::SensitivityRow;
use kvtune::sensitivity::Metric;
use kvtune::space::{
    Clustering, LayerErrors, LayerGroup, Noise, PairError, PruneParams, Space, SpaceError, cluster,
};
use linfa::ParamGuard;

use crate::folder::Folder;

/// A space and what it is called in tables.
pub(crate) type Named = (&'static str, Space);

/// No reduction, each of KVTuner's two, and both.
pub(crate) fn ablation(folder: &Folder) -> Result<Vec<Named>> {
    let spec = &folder.job.search_space.cluster;
    Ok(vec![
        ("none", layers(folder, false)?),
        ("prune", layers(folder, true)?),
        ("cluster", grouped(folder, false, spec)?),
        ("both", grouped(folder, true, spec)?),
    ])
}

/// The three treatments of layers that are like no other.
pub(crate) fn noise(folder: &Folder) -> Result<Vec<Named>> {
    let with = |noise| grouped(folder, true, &ClusterSpec { noise, ..folder.job.search_space.cluster });
    Ok(vec![
        ("bucket", with(Noise::Bucket)?),
        ("nearest", with(Noise::Nearest)?),
        ("singleton", with(Noise::Singleton)?),
    ])
}

/// Every layer its own group.
pub(crate) fn layers(folder: &Folder, pruned: bool) -> Result<Space> {
    let group = |layer: LayerErrors| LayerGroup {
        layers: vec![layer.layer],
        candidates: layer.candidates,
        noise: false,
    };
    let groups = errors(folder, pruned)?.into_iter().map(group).collect();
    Ok(Space::new(folder.space.n_layers(), folder.job.search_space.pairs.expand(), groups)?)
}

fn grouped(folder: &Folder, pruned: bool, spec: &ClusterSpec) -> Result<Space> {
    let clustering: Clustering = cluster(&errors(folder, pruned)?, &spec.params().check()?)?;
    Ok(Space::of_clusters(folder.job.search_space.pairs.expand(), clustering)?)
}

fn errors(folder: &Folder, pruned: bool) -> Result<Vec<LayerErrors>, SpaceError> {
    let spec = &folder.job.search_space;
    let e_o = |row: &SensitivityRow| match spec.sensitivity.metric {
        Metric::L1 => row.e_o_l1,
        Metric::Elementwise => row.e_o_elementwise,
    };
    let of_layer = |layer: usize| {
        let rows = folder.sensitivity.iter().filter(|row| row.layer == layer);
        let points: Vec<PairError> = rows.map(|row| PairError { pair: row.pair, e_o: e_o(row) }).collect();
        match pruned {
            true => {
                LayerErrors::pruned(LayerId(layer), &points, PruneParams { tolerance: spec.prune.tolerance })
            }
            false => LayerErrors::unpruned(LayerId(layer), &points),
        }
    };
    (0..folder.space.n_layers()).map(of_layer).collect()
}
