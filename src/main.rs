//! The `kvtune` program; see [`kvtune::cli`].

use std::process::ExitCode;

#[cfg(not(any(feature = "flex", feature = "cuda")))]
compile_error!(
    "the `kvtune` program needs a device to run on: build it with `--features flex` (CPU) or `--features cuda`"
);

/// Activations come and go by the megabyte; the system's allocator would map and clear their pages each time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[cfg(any(feature = "flex", feature = "cuda"))]
fn main() -> ExitCode {
    kvtune::cli::main()
}
