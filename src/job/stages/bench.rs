use super::session::Session;
use super::{BenchReport, BenchRequest, StageError, fit};
use crate::bench::{Contender, Machine, measure};
use crate::cache::{CacheKind, Simulation};
use crate::model::{Config, DecoderBackend, ModelError, WeightType};
use crate::precision::{PrecisionMap, PrecisionPair};
use crate::quant::Scheme;
use crate::score::simulation;

/// Measures full precision and the configurations, each cell with all of them in turn.
pub(super) fn run<B: DecoderBackend>(
    request: &BenchRequest,
    session: &Session<'_>,
) -> Result<BenchReport, StageError> {
    let config = session.checkpoint.config();
    fit::cells(request, session)?;
    let maps = request.configurations.iter().map(|configuration| session.map(configuration));
    let maps = maps.collect::<Result<Vec<_>, _>>()?;
    fit::cell_memory(request, &maps, session)?;
    let observer = session.observer();
    let decoder = session.decoder::<B>(request.weights)?;
    let positions = request.longest().max(request.bench.prompt);
    let of = |scheme: &Scheme| simulation(&decoder, scheme, positions).map_err(ModelError::from);
    let mut contenders = vec![full(of(&Scheme::kivi())?, session.n_layers())];
    for (configuration, map) in request.configurations.iter().zip(maps) {
        let simulation = of(&configuration.scheme)?;
        contenders.push(Contender { name: configuration.name.clone(), simulation, kind: request.cache, map });
    }
    let machine = Machine::measure();
    let rounds = request.cells.len() * contenders.len() * request.bench.rounds;
    observer.begin("bench", rounds as u64, "rounds");
    let weights = step_bytes(config, request.weights);
    let rows = measure(&decoder, weights, &contenders, &request.cells, request.bench, machine, observer)?;
    observer.end(&format!("{} cells, {} configurations", request.cells.len(), contenders.len()));
    Ok(BenchReport { machine, weight_bytes: weights, rows })
}

fn full(simulation: Simulation, layers: usize) -> Contender {
    let map = PrecisionMap::uniform(layers, PrecisionPair::FULL);
    Contender { name: "full".into(), simulation, kind: CacheKind::Full, map }
}

/// Bytes of weights that a step reads: every layer's and the head's.
fn step_bytes(config: &Config, weights: WeightType) -> usize {
    let head = config.vocab_size * config.hidden_size;
    (config.num_hidden_layers * config.layer_elements() as usize + head) * weights.bytes()
}
