//! Sixteen f32 side by side: one AVX-512 register, two of AVX2, or an array.
//!
//! The number is the same for all, so that a sum over lanes has one order whatever the instruction set; with and
//! without fused multiplication it still rounds differently.

/// Elements of a vector.
pub(super) const LANES: usize = 16;

/// An instruction set that the processor has.
pub(super) trait Lanes: Copy + Send + Sync {
    /// Sixteen f32.
    type Vector: Copy;

    /// Runs `work` compiled for the instruction set; everything that it calls must be inlined into it.
    fn run(self, work: impl FnOnce());
    fn zero(self) -> Self::Vector;
    fn load(self, x: &[f32; LANES]) -> Self::Vector;
    /// From the bits of finite f16.
    fn widen_f16(self, x: &[u16; LANES]) -> Self::Vector;
    /// From the bits of bf16.
    fn widen_bf16(self, x: &[u16; LANES]) -> Self::Vector;
    /// `a * b + c`
    fn mul_add(self, a: Self::Vector, b: Self::Vector, c: Self::Vector) -> Self::Vector;
    /// Asks for the memory that `bytes` from `at` on share lines with; it need not exist.
    fn prefetch(self, at: *const u8, bytes: usize);
    /// Over all lanes, halves onto each other.
    fn sum(self, x: Self::Vector) -> f32;
}

/// Whatever the compiler makes of arrays; products are rounded before they are added.
#[derive(Clone, Copy)]
pub(super) struct Portable;

impl Lanes for Portable {
    type Vector = [f32; LANES];

    #[inline(always)]
    fn run(self, work: impl FnOnce()) {
        work();
    }

    #[inline(always)]
    fn zero(self) -> Self::Vector {
        [0.0; LANES]
    }

    #[inline(always)]
    fn load(self, x: &[f32; LANES]) -> Self::Vector {
        *x
    }

    #[inline(always)]
    fn widen_f16(self, x: &[u16; LANES]) -> Self::Vector {
        let mut out = [0.0; LANES];
        for (out, &x) in out.iter_mut().zip(x) {
            // The exponent of f16 read as one of f32 is too small by 112, whether the number is normal or not.
            let magnitude = f32::from_bits(u32::from(x & 0x7fff) << 13) * F16_SCALE;
            *out = f32::from_bits(magnitude.to_bits() | u32::from(x & 0x8000) << 16);
        }
        out
    }

    #[inline(always)]
    fn widen_bf16(self, x: &[u16; LANES]) -> Self::Vector {
        let mut out = [0.0; LANES];
        for (out, &x) in out.iter_mut().zip(x) {
            *out = f32::from_bits(u32::from(x) << 16);
        }
        out
    }

    #[inline(always)]
    fn mul_add(self, a: Self::Vector, b: Self::Vector, mut c: Self::Vector) -> Self::Vector {
        for i in 0..LANES {
            c[i] += a[i] * b[i];
        }
        c
    }

    #[inline(always)]
    fn prefetch(self, _at: *const u8, _bytes: usize) {}

    #[inline(always)]
    fn sum(self, x: Self::Vector) -> f32 {
        let mut x = x;
        for width in [8, 4, 2, 1] {
            for i in 0..width {
                x[i] += x[i + width];
            }
        }
        x[0]
    }
}

/// 2¹¹²
const F16_SCALE: f32 = f32::from_bits((112 + 127) << 23);

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{__m128i, __m256, __m256i, __m512, _MM_HINT_T0, _mm_prefetch};

    use pulp::cast;
    use pulp::x86::{V3, V4};

    use super::{F16_SCALE, LANES, Lanes};

    impl Lanes for V4 {
        type Vector = __m512;

        #[inline(always)]
        fn run(self, work: impl FnOnce()) {
            self.vectorize(work);
        }

        #[inline(always)]
        fn zero(self) -> __m512 {
            self.avx512f._mm512_setzero_ps()
        }

        #[inline(always)]
        fn load(self, x: &[f32; LANES]) -> __m512 {
            cast(*x)
        }

        #[inline(always)]
        fn widen_f16(self, x: &[u16; LANES]) -> __m512 {
            self.avx512f._mm512_cvtph_ps(cast::<_, __m256i>(*x))
        }

        #[inline(always)]
        fn widen_bf16(self, x: &[u16; LANES]) -> __m512 {
            let wide = self.avx512f._mm512_cvtepu16_epi32(cast::<_, __m256i>(*x));
            cast(self.avx512f._mm512_slli_epi32::<16>(wide))
        }

        #[inline(always)]
        fn mul_add(self, a: __m512, b: __m512, c: __m512) -> __m512 {
            self.avx512f._mm512_fmadd_ps(a, b, c)
        }

        #[inline(always)]
        fn prefetch(self, at: *const u8, bytes: usize) {
            prefetch(at, bytes);
        }

        #[inline(always)]
        fn sum(self, x: __m512) -> f32 {
            let high = self.avx512dq._mm512_extractf32x8_ps::<1>(x);
            sum_of_eight(*self, self.avx._mm256_add_ps(self.avx512f._mm512_castps512_ps256(x), high))
        }
    }

    impl Lanes for V3 {
        type Vector = [__m256; 2];

        #[inline(always)]
        fn run(self, work: impl FnOnce()) {
            self.vectorize(work);
        }

        #[inline(always)]
        fn zero(self) -> [__m256; 2] {
            [self.avx._mm256_setzero_ps(); 2]
        }

        #[inline(always)]
        fn load(self, x: &[f32; LANES]) -> [__m256; 2] {
            cast(*x)
        }

        #[inline(always)]
        fn widen_f16(self, x: &[u16; LANES]) -> [__m256; 2] {
            let [low, high]: [__m128i; 2] = cast(*x);
            let scale = self.avx._mm256_set1_ps(F16_SCALE);
            let sign = self.avx._mm256_set1_epi32(i32::MIN);
            let widen = |x: __m128i| {
                let wide = self.avx2._mm256_slli_epi32::<16>(self.avx2._mm256_cvtepu16_epi32(x));
                let magnitude = self.avx2._mm256_srli_epi32::<3>(self.avx2._mm256_andnot_si256(sign, wide));
                let value = self.avx._mm256_mul_ps(cast(magnitude), scale);
                self.avx._mm256_or_ps(value, cast(self.avx2._mm256_and_si256(sign, wide)))
            };
            [widen(low), widen(high)]
        }

        #[inline(always)]
        fn widen_bf16(self, x: &[u16; LANES]) -> [__m256; 2] {
            let [low, high]: [__m128i; 2] = cast(*x);
            [low, high].map(|x| cast(self.avx2._mm256_slli_epi32::<16>(self.avx2._mm256_cvtepu16_epi32(x))))
        }

        #[inline(always)]
        fn mul_add(self, a: [__m256; 2], b: [__m256; 2], c: [__m256; 2]) -> [__m256; 2] {
            [self.fma._mm256_fmadd_ps(a[0], b[0], c[0]), self.fma._mm256_fmadd_ps(a[1], b[1], c[1])]
        }

        #[inline(always)]
        fn prefetch(self, at: *const u8, bytes: usize) {
            prefetch(at, bytes);
        }

        #[inline(always)]
        fn sum(self, x: [__m256; 2]) -> f32 {
            sum_of_eight(self, self.avx._mm256_add_ps(x[0], x[1]))
        }
    }

    /// One line or more of 64 bytes, into all caches.
    #[inline(always)]
    fn prefetch(at: *const u8, bytes: usize) {
        let mut offset = 0;
        while offset < bytes {
            // SAFETY: a prefetch is a hint: it reads nothing and cannot fault, whatever the address.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(at.wrapping_add(offset).cast()) };
            offset += 64;
        }
    }

    #[inline(always)]
    fn sum_of_eight(simd: V3, x: __m256) -> f32 {
        let sse = simd.sse;
        let x = sse._mm_add_ps(simd.avx._mm256_castps256_ps128(x), simd.avx._mm256_extractf128_ps::<1>(x));
        let x = sse._mm_add_ps(x, sse._mm_movehl_ps(x, x));
        sse._mm_cvtss_f32(sse._mm_add_ss(x, sse._mm_shuffle_ps::<1>(x, x)))
    }
}
