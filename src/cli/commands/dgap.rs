use super::{Session, configuration};
use crate::cli::args::{
    DgapCommand, DgapEvalArgs, DgapExportArgs, DgapTrainArgs, RestoreArgs, SettingArgs, TuningArgs,
};
use crate::dgap::heads::{Bounds, Corrector, Sizes};
use crate::dgap::loss::LossWeights;
use crate::dgap::{Policy, TrainParams, export};
use crate::job::stages::{
    self, DgapEvaluation, DgapRequest, DgapTraining, MorePositions, Outcome, Restoration,
};
use crate::job::{Job, Overrides};

pub(super) fn run(command: &DgapCommand, session: &Session<'_>) -> anyhow::Result<()> {
    match command {
        DgapCommand::Train(args) => train(args, session),
        DgapCommand::Eval(args) => eval(args, session),
        DgapCommand::Control(args) => {
            let request = request(&args.settings)?;
            let outcome = session.with_context(false, |context| stages::dgap_control(&request, context))?;
            print(&outcome, session)
        }
        DgapCommand::Export(args) => export_python(args, session),
    }
}

fn train(args: &DgapTrainArgs, session: &Session<'_>) -> anyhow::Result<()> {
    let named = args.correctors.iter().map(|&name| name.into());
    let training = DgapTraining {
        request: request(&args.settings)?,
        top_k: args.top_k,
        layers: layers(&args.layers),
        more: MorePositions { prompts: args.prompts, own_text: args.own_text },
        drift_limit: args.drift_limit,
        policy: args.missed_drift.map_or(Policy::TriggerRate(args.trigger_rate), Policy::MissedDrift),
        correctors: if args.correctors.is_empty() { Corrector::ALL.to_vec() } else { named.collect() },
        params: params(args.seed, &args.tuning),
    };
    let outcome = session.with_context(false, |context| stages::dgap_train(&training, context))?;
    print(&outcome, session)
}

fn eval(args: &DgapEvalArgs, session: &Session<'_>) -> anyhow::Result<()> {
    let evaluation = DgapEvaluation {
        request: request(&args.settings)?,
        heads: args.heads.clone(),
        front: args.front.clone(),
        prompts: args.prompts,
        speed: args.speed,
    };
    let outcome = session.with_context(false, |context| stages::dgap_eval(&evaluation, context))?;
    print(&outcome, session)
}

fn export_python(args: &DgapExportArgs, session: &Session<'_>) -> anyhow::Result<()> {
    let out = args.out.clone().unwrap_or_else(|| args.heads.with_file_name("dgap_processor.py"));
    export::python(&args.heads, args.corrector.map(Into::into), &out)?;
    Ok(session.output.data(&format!("{}\n", out.display()))?)
}

/// Heads to decode with, if any were named.
pub(super) fn restoration(typed: &RestoreArgs) -> Option<Restoration> {
    let corrector = typed.corrector.map(Into::into);
    typed.dgap.as_ref().map(|heads| Restoration { heads: heads.clone(), corrector, risk: typed.risk })
}

/// Pairs under the scheme of the folder's job, and maps.
fn request(settings: &SettingArgs) -> anyhow::Result<DgapRequest> {
    let overrides = Overrides { out: Some(settings.folder.clone()), ..Overrides::default() };
    let scheme = Job::read(&settings.folder.join("job.yaml"), &overrides)?.search_space.scheme;
    let maps = settings.precision.iter().map(|path| configuration::map(path, &scheme));
    let pairs = settings.uniform.iter().map(|&pair| Ok(configuration::uniform(pair, &scheme)));
    let configurations = pairs.chain(maps).collect::<anyhow::Result<_>>()?;
    Ok(DgapRequest { folder: settings.folder.clone(), configurations })
}

/// In the order of the model, each once.
fn layers(typed: &[usize]) -> Vec<usize> {
    let mut layers = typed.to_vec();
    layers.sort_unstable();
    layers.dedup();
    layers
}

/// What was typed, over the defaults.
fn params(seed: u64, typed: &TuningArgs) -> TrainParams {
    let TrainParams { loss, bounds, sizes, .. } = TrainParams::default();
    let default = TrainParams::default();
    TrainParams {
        seed,
        epochs: typed.epochs.unwrap_or(default.epochs),
        patience: typed.patience.unwrap_or(default.patience),
        batch: typed.batch.unwrap_or(default.batch),
        learning_rate: typed.learning_rate.unwrap_or(default.learning_rate),
        weight_decay: typed.weight_decay.unwrap_or(default.weight_decay),
        dropout: typed.dropout.unwrap_or(default.dropout),
        loss: LossWeights {
            divergence: typed.divergence.map_or(loss.divergence, Into::into),
            ranking: typed.ranking.unwrap_or(loss.ranking),
            margins: typed.margins.unwrap_or(loss.margins),
            quiet: typed.quiet_weight.unwrap_or(loss.quiet),
            ..loss
        },
        bounds: Bounds {
            clip: typed.clip.map_or(bounds.clip, |clip| clip as f32),
            keep_mass: bounds.keep_mass && !typed.free_mass,
        },
        sizes: Sizes {
            rank: typed.rank.unwrap_or(sizes.rank),
            width: typed.width.unwrap_or(sizes.width),
            set_width: typed.set_width.unwrap_or(sizes.set_width),
        },
    }
}

fn print(outcome: &Outcome, session: &Session<'_>) -> anyhow::Result<()> {
    outcome.summary.iter().for_each(|line| session.output.note(line));
    let files: String = outcome.files.iter().map(|file| format!("{}\n", file.display())).collect();
    Ok(session.output.data(&files)?)
}
