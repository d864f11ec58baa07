//! Polynomials modulo that of CRC32C: what a register is, and by what it moves over bytes.

/// The polynomial of CRC32C, its lowest coefficient in the highest bit.
const POLYNOMIAL: u32 = 0x82f6_3b78;
/// The polynomial 1.
pub(super) const ONE: u32 = 1 << 31;
/// The polynomial x to the 8: what a byte moves the register by.
pub(super) const BYTE: u32 = 1 << 23;

/// The product of two polynomials.
pub(super) const fn times(mut a: u32, mut b: u32) -> u32 {
    let (mut product, mut bit) = (0, 0);
    while bit < 32 {
        product ^= b & (a >> 31).wrapping_neg();
        a <<= 1;
        b = (b >> 1) ^ (POLYNOMIAL & (b & 1).wrapping_neg());
        bit += 1;
    }
    product
}
