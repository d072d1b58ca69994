use super::session::Session;
use super::{BenchReport, BenchRequest, StageError};
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
    let longest = request.cells.iter().map(|cell| cell.context).max().unwrap_or(0);
    let steps = request.bench.steps * request.bench.rounds;
    if longest + steps > config.max_position_embeddings && !request.beyond {
        return Err(StageError::Unmet {
            message: format!(
                "{longest} tokens and {steps} steps are beyond the {} positions of the model",
                config.max_position_embeddings
            ),
            hint: Some("choose shorter cells, or time them all the same with `--beyond`".into()),
        });
    }
    let maps = request.configurations.iter().map(|configuration| session.map(configuration));
    let maps = maps.collect::<Result<Vec<_>, _>>()?;
    check_memory(request, &maps, session)?;
    let observer = session.observer();
    let decoder = session.decoder::<B>(request.weights)?;
    let positions = longest.max(request.bench.prompt) + steps;
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

/// The caches of the largest cell are alive together, and the weights with them.
fn check_memory(
    request: &BenchRequest,
    maps: &[PrecisionMap],
    session: &Session<'_>,
) -> Result<(), StageError> {
    let Some(available) = session.context.available_memory else { return Ok(()) };
    let config = session.checkpoint.config();
    let shape = config.head_shape().stored();
    let shapes = vec![shape; session.n_layers()];
    let of_cell = |batch: usize, context: usize| {
        let full = 2 * size_of::<f32>() * shape.width() * context * session.n_layers();
        let coded = request.configurations.iter().zip(maps).map(|(configuration, map)| match request.cache {
            CacheKind::Packed => configuration.scheme.map_bytes(map, &shapes, context),
            CacheKind::Simulated | CacheKind::Full => 2 * full as u64,
        });
        batch as u64 * (full as u64 + coded.sum::<u64>())
    };
    let caches = request.cells.iter().map(|cell| of_cell(cell.batch, cell.context)).max().unwrap_or(0);
    let needed = caches + session.held(request.weights)?.bytes();
    if needed <= available {
        return Ok(());
    }
    let gib = |bytes: u64| bytes as f64 / (1_u64 << 30) as f64;
    Err(StageError::Unmet {
        message: format!(
            "weights and the caches of the largest cell take {:.1} GiB, but {:.1} GiB are free",
            gib(needed),
            gib(available)
        ),
        hint: Some("choose smaller cells with `--cells`, or fewer configurations".into()),
    })
}
