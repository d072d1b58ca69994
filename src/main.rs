//! The `kvtune` program; see [`kvtune::cli`].

use std::process::ExitCode;

/// Activations come and go by the megabyte; the system's allocator would map and clear their pages each time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    kvtune::cli::main()
}
