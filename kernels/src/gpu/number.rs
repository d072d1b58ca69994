//! Numbers as kernels read and write them: f16 as bits, quotients that are right on every device.

use cubecl::prelude::*;

/// The 16 bits of `x` as f16, ties to even; 0x7c00 (infinity) where `x` does not fit.
///
/// Integer arithmetic, since not every device has f16 and those that do may round otherwise.
#[cube]
pub(super) fn half_bits(x: f32) -> u32 {
    let bits = x.to_bits();
    let sign = (bits >> 16) & 0x8000;
    let magnitude = bits & 0x7fff_ffff;
    let half = if magnitude >= 0x3880_0000 {
        let rebiased = magnitude - 0x3800_0000;
        min((rebiased + 0xfff + ((rebiased >> 13) & 1)) >> 13, 0x7c00)
    } else {
        // Units of 2⁻²⁴; f32 subnormals are far below half of one.
        let mantissa = (magnitude & 0x7f_ffff) | 0x80_0000;
        let shift = min(126 - (magnitude >> 23), 25);
        (mantissa + (1 << (shift - 1)) - 1 + ((mantissa >> shift) & 1)) >> shift
    };
    sign | half
}

/// A whole number below 2²³ as f32, without a conversion: 2²³ + n has n in its low bits.
#[cube]
pub(super) fn whole(n: u32) -> f32 {
    f32::from_bits(n | 0x4b00_0000) - 8_388_608.0
}

/// The number that the low 16 bits of `half` stand for as f16; finite.
#[cube]
pub(super) fn half_value(half: u32) -> f32 {
    let magnitude = half & 0x7fff;
    let normal = f32::from_bits((magnitude << 13) + 0x3800_0000);
    let subnormal = whole(magnitude) * 5.960_464_5e-8; // 2⁻²⁴
    let value = select(magnitude < 0x400, subnormal, normal);
    select(half & 0x8000 != 0, -value, value)
}

/// `a / b` rounded to nearest for positive normal numbers with a normal quotient.
///
/// CUDA divides so already; Vulkan lets a device be off by 2.5 units in the last place. The remainder of integer
/// mantissas is exact in 32 bits, where its true value is small, and says which way to step.
#[cube]
pub(super) fn quotient(a: f32, b: f32) -> f32 {
    let mut bits = (a / b).to_bits();
    // A variable of its own, since CUDA C++ cannot take the bits of a literal.
    let mut variable = f32::new(0.0);
    variable += b;
    let (a, b) = (a.to_bits(), variable.to_bits());
    let divisor = mantissa(b);
    // a/b = bits·2^… exactly when mantissa(a) << shift = mantissa(bits) · divisor.
    let shift = (a >> 23) + 150 - (b >> 23) - (bits >> 23);
    let remainder = (mantissa(a) << shift) - mantissa(bits) * divisor;
    let mut twice = i32::reinterpret(remainder) * 2;
    let step = i32::cast_from(divisor);
    #[unroll]
    for _ in 0..2 {
        if twice > step {
            bits += 1;
            twice -= 2 * step;
        } else if twice < -step {
            bits -= 1;
            twice += 2 * step;
        }
    }
    f32::from_bits(bits)
}

#[cube]
fn mantissa(bits: u32) -> u32 {
    (bits & 0x7f_ffff) | 0x80_0000
}

#[cfg(test)]
mod tests {
    use half::f16;

    use super::*;

    #[test]
    fn halves_are_those_of_the_half_crate() {
        for bits in 0..=u16::MAX {
            let half = f16::from_bits(bits);
            if half.is_finite() {
                assert_eq!(half_value(u32::from(bits)).to_bits(), half.to_f32().to_bits(), "{half}");
            }
        }
        for bits in (0..0x7f80_0000_u32).step_by(4099).chain([0x477f_efff, 0x477f_f000, 0x3300_0000]) {
            for bits in [bits, bits | 0x8000_0000] {
                let x = f32::from_bits(bits);
                let expected = u32::from(f16::from_f32(x).to_bits());
                assert_eq!(half_bits(x), expected, "{x:e}");
            }
        }
    }
}
