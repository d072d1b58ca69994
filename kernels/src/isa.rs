//! Vectors of sixteen f32 in the widest instruction set that the processor has.
//!
//! `pulp` dispatches loops that the compiler vectorizes well by itself; those of the packed cache it does not
//! (the sums of seven query heads end up in memory), so they are written in these few operations. A processor
//! without fused multiply–add gets the portable vectors, which multiply and add: the standard library would fuse
//! in software, a hundred times slower.

use half::f16;

/// Elements of a vector.
pub(crate) const LANES: usize = 16;

/// A loop over vectors.
pub(crate) trait Loop {
    /// What it gives.
    type Output;

    /// The loop. Mark it and all it calls `#[inline(always)]`, or it is compiled for the oldest processor.
    fn run<I: Isa>(self, isa: I) -> Self::Output;
}

/// An instruction set. A value of such a type is proof that the processor has it.
pub(crate) trait Isa: Copy {
    /// Sixteen f32.
    type F: Copy;
    /// Sixteen u32.
    type U: Copy;
    /// Query heads whose sums fit the registers beside two strips; more take turns.
    const HEADS: usize;

    /// Calls a function that stays a function: one copy of a large loop, however many places call it.
    fn outlined<R>(self, f: impl FnOnce() -> R) -> R;

    /// All lanes the same.
    fn splat(self, x: f32) -> Self::F;
    /// From memory.
    fn load(self, from: &[f32; LANES]) -> Self::F;
    /// To memory.
    fn store(self, x: Self::F, to: &mut [f32; LANES]);
    /// `a · b + c`.
    fn mul_add(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F;
    /// `a · b`, rounded.
    fn mul(self, a: Self::F, b: Self::F) -> Self::F;
    /// `a + b`.
    fn add(self, a: Self::F, b: Self::F) -> Self::F;
    /// The larger in each lane; neither is NaN.
    fn max(self, a: Self::F, b: Self::F) -> Self::F;
    /// From half precision in memory.
    fn load_half(self, from: &[f16; LANES]) -> Self::F;
    /// Asks for the cache line of an address, which need not be readable.
    fn prefetch(self, at: *const u8);
    /// Words from memory.
    fn load_words(self, from: &[u32; LANES]) -> Self::U;
    /// `words & mask`, as the integers that these bits are; the sign bit must not be among them.
    fn masked(self, words: Self::U, mask: u32) -> Self::F;
    /// `words >> SHIFT`, as the integers that these bits are; SHIFT is at least 1.
    fn shifted<const SHIFT: u32>(self, words: Self::U) -> Self::F;

    /// The sum of all lanes, in a fixed order.
    #[inline(always)]
    fn sum(self, x: Self::F) -> f32 {
        let mut lanes = [0.0; LANES];
        self.store(x, &mut lanes);
        let mut half = LANES / 2;
        while half > 0 {
            for i in 0..half {
                lanes[i] += lanes[i + half];
            }
            half /= 2;
        }
        lanes[0]
    }
}

/// Runs a loop.
pub(crate) fn dispatch<L: Loop>(work: L) -> L::Output {
    #[cfg(target_arch = "x86_64")]
    {
        if x86::has_wide() {
            // SAFETY: the processor has the features, as asked above.
            return unsafe { x86::wide(work) };
        }
        if x86::has_middle() {
            // SAFETY: the processor has the features, as asked above.
            return unsafe { x86::middle(work) };
        }
    }
    work.run(Portable)
}

/// Runs a loop in every instruction set that the processor has, the portable one first.
#[cfg(test)]
pub(crate) fn on_each<L: Loop + Clone>(work: &L) -> Vec<L::Output> {
    let mut outputs = vec![work.clone().run(Portable)];
    #[cfg(target_arch = "x86_64")]
    {
        if x86::has_middle() {
            // SAFETY: the processor has the features, as asked above.
            outputs.push(unsafe { x86::middle(work.clone()) });
        }
        if x86::has_wide() {
            // SAFETY: the processor has the feature, as asked above.
            outputs.push(unsafe { x86::wide(work.clone()) });
        }
    }
    outputs
}

/// Plain arrays; the compiler makes of them what it can.
#[derive(Clone, Copy)]
pub(crate) struct Portable;

impl Isa for Portable {
    type F = [f32; LANES];
    type U = [u32; LANES];
    const HEADS: usize = 1;

    #[inline(never)]
    fn outlined<R>(self, f: impl FnOnce() -> R) -> R {
        f()
    }

    #[inline(always)]
    fn splat(self, x: f32) -> Self::F {
        [x; LANES]
    }
    #[inline(always)]
    fn load(self, from: &[f32; LANES]) -> Self::F {
        *from
    }
    #[inline(always)]
    fn store(self, x: Self::F, to: &mut [f32; LANES]) {
        *to = x;
    }
    #[inline(always)]
    fn mul_add(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F {
        let fused = cfg!(target_arch = "aarch64");
        std::array::from_fn(|i| if fused { a[i].mul_add(b[i], c[i]) } else { a[i] * b[i] + c[i] })
    }
    #[inline(always)]
    fn mul(self, a: Self::F, b: Self::F) -> Self::F {
        std::array::from_fn(|i| a[i] * b[i])
    }
    #[inline(always)]
    fn add(self, a: Self::F, b: Self::F) -> Self::F {
        std::array::from_fn(|i| a[i] + b[i])
    }
    #[inline(always)]
    fn max(self, a: Self::F, b: Self::F) -> Self::F {
        std::array::from_fn(|i| if a[i] > b[i] { a[i] } else { b[i] })
    }
    #[inline(always)]
    fn load_half(self, from: &[f16; LANES]) -> Self::F {
        from.map(f16::to_f32)
    }
    #[inline(always)]
    fn prefetch(self, _at: *const u8) {}
    #[inline(always)]
    fn load_words(self, from: &[u32; LANES]) -> Self::U {
        *from
    }
    #[inline(always)]
    fn masked(self, words: Self::U, mask: u32) -> Self::F {
        words.map(|word| (word & mask) as i32 as f32)
    }
    #[inline(always)]
    fn shifted<const SHIFT: u32>(self, words: Self::U) -> Self::F {
        words.map(|word| (word >> SHIFT) as i32 as f32)
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use half::f16;

    use super::{Isa, LANES, Loop};

    pub(super) fn has_middle() -> bool {
        is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma")
            && is_x86_feature_detected!("f16c")
    }

    pub(super) fn has_wide() -> bool {
        is_x86_feature_detected!("avx512f") && has_middle()
    }

    #[target_feature(enable = "avx512f,avx2,fma")]
    pub(super) fn wide<L: Loop>(work: L) -> L::Output {
        work.run(Avx512(()))
    }

    #[target_feature(enable = "avx2,fma,f16c")]
    pub(super) fn middle<L: Loop>(work: L) -> L::Output {
        work.run(Avx2(()))
    }

    #[inline(never)]
    #[target_feature(enable = "avx512f,avx2,fma")]
    fn wide_outlined<R>(f: impl FnOnce() -> R) -> R {
        f()
    }

    #[inline(never)]
    #[target_feature(enable = "avx2,fma,f16c")]
    fn middle_outlined<R>(f: impl FnOnce() -> R) -> R {
        f()
    }

    /// Made only by [`wide`].
    #[derive(Clone, Copy)]
    pub(super) struct Avx512(());

    /// Made only by [`middle`].
    #[derive(Clone, Copy)]
    pub(super) struct Avx2(());

    // SAFETY of every block below: a value of the type exists only inside the function that enables its
    // instructions; memory is read and written through references to whole arrays, unaligned.
    impl Isa for Avx512 {
        type F = __m512;
        type U = __m512i;
        const HEADS: usize = 4;

        #[inline(always)]
        fn outlined<R>(self, f: impl FnOnce() -> R) -> R {
            // SAFETY: see above.
            unsafe { wide_outlined(f) }
        }

        #[inline(always)]
        fn splat(self, x: f32) -> Self::F {
            // SAFETY: see above.
            unsafe { _mm512_set1_ps(x) }
        }
        #[inline(always)]
        fn load(self, from: &[f32; LANES]) -> Self::F {
            // SAFETY: see above.
            unsafe { _mm512_loadu_ps(from.as_ptr()) }
        }
        #[inline(always)]
        fn store(self, x: Self::F, to: &mut [f32; LANES]) {
            // SAFETY: see above.
            unsafe { _mm512_storeu_ps(to.as_mut_ptr(), x) }
        }
        #[inline(always)]
        fn mul_add(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F {
            // SAFETY: see above.
            unsafe { _mm512_fmadd_ps(a, b, c) }
        }
        #[inline(always)]
        fn mul(self, a: Self::F, b: Self::F) -> Self::F {
            // SAFETY: see above.
            unsafe { _mm512_mul_ps(a, b) }
        }
        #[inline(always)]
        fn add(self, a: Self::F, b: Self::F) -> Self::F {
            // SAFETY: see above.
            unsafe { _mm512_add_ps(a, b) }
        }
        #[inline(always)]
        fn max(self, a: Self::F, b: Self::F) -> Self::F {
            // SAFETY: see above.
            unsafe { _mm512_max_ps(a, b) }
        }
        #[inline(always)]
        fn load_half(self, from: &[f16; LANES]) -> Self::F {
            // SAFETY: see above; f16 is sixteen plain bits.
            unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(from.as_ptr().cast())) }
        }
        #[inline(always)]
        fn prefetch(self, at: *const u8) {
            // SAFETY: see above; a prefetch touches nothing.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) }
        }
        #[inline(always)]
        fn sum(self, x: Self::F) -> f32 {
            // SAFETY: see above.
            unsafe { _mm512_reduce_add_ps(x) }
        }
        #[inline(always)]
        fn load_words(self, from: &[u32; LANES]) -> Self::U {
            // SAFETY: see above.
            unsafe { _mm512_loadu_si512(from.as_ptr().cast()) }
        }
        #[inline(always)]
        fn masked(self, words: Self::U, mask: u32) -> Self::F {
            // SAFETY: see above.
            unsafe { _mm512_cvtepi32_ps(_mm512_and_si512(words, _mm512_set1_epi32(mask as i32))) }
        }
        #[inline(always)]
        fn shifted<const SHIFT: u32>(self, words: Self::U) -> Self::F {
            // SAFETY: see above.
            unsafe { _mm512_cvtepi32_ps(_mm512_srli_epi32::<SHIFT>(words)) }
        }
    }

    impl Isa for Avx2 {
        type F = [__m256; 2];
        type U = [__m256i; 2];
        const HEADS: usize = 2;

        #[inline(always)]
        fn outlined<R>(self, f: impl FnOnce() -> R) -> R {
            // SAFETY: see above.
            unsafe { middle_outlined(f) }
        }

        #[inline(always)]
        fn splat(self, x: f32) -> Self::F {
            // SAFETY: see above.
            [unsafe { _mm256_set1_ps(x) }; 2]
        }
        #[inline(always)]
        fn load(self, from: &[f32; LANES]) -> Self::F {
            // SAFETY: see above.
            unsafe { [_mm256_loadu_ps(from.as_ptr()), _mm256_loadu_ps(from[8..].as_ptr())] }
        }
        #[inline(always)]
        fn store(self, x: Self::F, to: &mut [f32; LANES]) {
            // SAFETY: see above.
            unsafe {
                _mm256_storeu_ps(to.as_mut_ptr(), x[0]);
                _mm256_storeu_ps(to[8..].as_mut_ptr(), x[1]);
            }
        }
        #[inline(always)]
        fn mul_add(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F {
            // SAFETY: see above.
            unsafe { [_mm256_fmadd_ps(a[0], b[0], c[0]), _mm256_fmadd_ps(a[1], b[1], c[1])] }
        }
        #[inline(always)]
        fn mul(self, a: Self::F, b: Self::F) -> Self::F {
            // SAFETY: see above.
            unsafe { [_mm256_mul_ps(a[0], b[0]), _mm256_mul_ps(a[1], b[1])] }
        }
        #[inline(always)]
        fn add(self, a: Self::F, b: Self::F) -> Self::F {
            // SAFETY: see above.
            unsafe { [_mm256_add_ps(a[0], b[0]), _mm256_add_ps(a[1], b[1])] }
        }
        #[inline(always)]
        fn max(self, a: Self::F, b: Self::F) -> Self::F {
            // SAFETY: see above.
            unsafe { [_mm256_max_ps(a[0], b[0]), _mm256_max_ps(a[1], b[1])] }
        }
        #[inline(always)]
        fn load_half(self, from: &[f16; LANES]) -> Self::F {
            // SAFETY: see above; f16 is sixteen plain bits.
            unsafe {
                let (low, high) = (from.as_ptr(), from[8..].as_ptr());
                [_mm256_cvtph_ps(_mm_loadu_si128(low.cast())), _mm256_cvtph_ps(_mm_loadu_si128(high.cast()))]
            }
        }
        #[inline(always)]
        fn prefetch(self, at: *const u8) {
            // SAFETY: see above; a prefetch touches nothing.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) }
        }
        #[inline(always)]
        fn load_words(self, from: &[u32; LANES]) -> Self::U {
            // SAFETY: see above.
            unsafe {
                [_mm256_loadu_si256(from.as_ptr().cast()), _mm256_loadu_si256(from[8..].as_ptr().cast())]
            }
        }
        #[inline(always)]
        fn masked(self, words: Self::U, mask: u32) -> Self::F {
            // SAFETY: see above.
            words.map(|half| unsafe {
                _mm256_cvtepi32_ps(_mm256_and_si256(half, _mm256_set1_epi32(mask as i32)))
            })
        }
        #[inline(always)]
        fn shifted<const SHIFT: u32>(self, words: Self::U) -> Self::F {
            let [low, high] = words;
            // SAFETY: see above. The counts are below 32, so the sign bits of these shifts are masked away.
            unsafe {
                let count = _mm_cvtsi32_si128(SHIFT as i32);
                [
                    _mm256_cvtepi32_ps(_mm256_srl_epi32(low, count)),
                    _mm256_cvtepi32_ps(_mm256_srl_epi32(high, count)),
                ]
            }
        }
    }
}
