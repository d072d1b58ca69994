/// The elements of a product, of which every task writes its own: columns of one task and those of another lie in the
/// same rows, so no slices can be handed out.
pub(super) struct Cells {
    pub(super) out: *mut f32,
    /// Elements that `out` has room for.
    pub(super) len: usize,
    /// Elements from one row to the next.
    pub(super) stride: usize,
}

// SAFETY: the pointer stands for a buffer that whoever makes this holds exclusively while its tasks run; each reaches
// other elements through it, and reads only what it wrote itself.
unsafe impl Sync for Cells {}
