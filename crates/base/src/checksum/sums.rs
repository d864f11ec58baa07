//! Checksums of any piece of some bytes, without summing that piece.
//!
//! A search for records among arbitrary bytes tries many places, and each may claim to reach to the end. Summing
//! every claim takes time that grows with the square of the bytes. But a CRC is linear. Let `R(x)` be the register
//! after the first `x` bytes, started from zero. Then the register
//! after the piece from `a` to `b`, started from `s`, is `(s ^ R(a)) * x^(8(b-a)) ^ R(b)`, a product of
//! polynomials modulo that of CRC32C. So the bytes are summed once, the register is noted at every
//! multiple of some length, and a piece costs the bytes behind two such multiples and four products.

use super::crc32c;
use super::polynomials::{BYTE, ONE, times};

/// The registers after every so many bytes.
#[derive(Debug)]
pub struct Sums {
    every: usize,
    /// After each multiple of `every`.
    noted: Vec<u32>,
    register: u32,
    len: u64,
    powers: Powers,
}

/// The register after the first bytes.
#[derive(Debug, Clone, Copy)]
pub struct Prefix {
    len: u64,
    register: u32,
}

impl Sums {
    /// A register after no bytes. Takes four bytes of memory for each `every` bytes.
    ///
    /// # Panics
    /// If `every` is 0.
    pub fn new(every: usize) -> Sums {
        assert!(every > 0, "a register is noted after some bytes");
        Sums {
            every,
            noted: vec![0],
            register: 0,
            len: 0,
            powers: Powers::new(),
        }
    }

    /// Adds bytes behind those before.
    pub fn append(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let behind = self.len % self.every as u64;
            let room = self.every - usize::try_from(behind).unwrap_or(0);
            let (piece, rest) = bytes.split_at(room.min(bytes.len()));
            self.register = go_on(self.register, piece);
            self.len += piece.len() as u64;
            if piece.len() == room {
                self.noted.push(self.register);
            }
            bytes = rest;
        }
    }

    /// Bytes that were added.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether no bytes were added.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The place at or before `at` behind which [`Sums::up_to`] wants the bytes again.
    pub fn noted_before(&self, at: u64) -> u64 {
        at - at % self.every as u64
    }

    /// The bytes before `at`, of which `rest` are those from [`Sums::noted_before`] on.
    ///
    /// # Panics
    /// If `rest` has another length, or that many bytes were not added.
    pub fn up_to(&self, at: u64, rest: &[u8]) -> Prefix {
        let from = self.noted_before(at);
        assert!(at <= self.len && rest.len() as u64 == at - from);
        let noted = usize::try_from(from / self.every as u64).unwrap_or(usize::MAX);
        Prefix {
            len: at,
            register: go_on(self.noted[noted], rest),
        }
    }

    /// By how much two CRCs differ behind `bytes` equal bytes, if before these they differed by `difference`.
    ///
    /// ```
    /// use thermocline_base::checksum::{Sums, crc32c};
    /// let after = |crc| crc32c(crc, b"the same");
    /// assert_eq!(Sums::new(1).moved(5 ^ 77, 8), after(5) ^ after(77));
    /// ```
    pub fn moved(&self, difference: u32, bytes: u64) -> u32 {
        self.powers.moved(difference, bytes)
    }

    /// The CRC32C, continued from `crc`, of the bytes between two prefixes.
    ///
    /// ```
    /// use thermocline_base::checksum::{Sums, crc32c};
    /// let bytes = b"some bytes, and some more";
    /// let mut sums = Sums::new(8);
    /// sums.append(bytes);
    /// let (from, to) = (sums.up_to(5, &bytes[..5]), sums.up_to(18, &bytes[16..18]));
    /// assert_eq!(sums.between(7, from, to), crc32c(7, &bytes[5..18]));
    /// ```
    ///
    /// # Panics
    /// If `to` lies before `from`.
    pub fn between(&self, crc: u32, from: Prefix, to: Prefix) -> u32 {
        assert!(from.len <= to.len);
        let moved = self.powers.moved(!crc ^ from.register, to.len - from.len);
        !(moved ^ to.register)
    }
}

/// The register after more bytes.
fn go_on(register: u32, bytes: &[u8]) -> u32 {
    !crc32c(!register, bytes)
}

/// By what the register moves over bytes: for each digit of their number, to the base of 256.
#[derive(Debug)]
struct Powers(Vec<[u32; 256]>);

impl Powers {
    fn new() -> Powers {
        let mut unit = BYTE;
        let digit = |_| {
            let mut powers = [ONE; 256];
            for n in 1..256 {
                powers[n] = times(powers[n - 1], unit);
            }
            unit = times(powers[255], unit);
            powers
        };
        Powers((0..8).map(digit).collect())
    }

    fn moved(&self, register: u32, bytes: u64) -> u32 {
        let digits = self.0.iter().zip(bytes.to_le_bytes());
        let digits = digits.filter(|(_, digit)| *digit > 0);
        digits.fold(register, |register, (powers, digit)| {
            times(register, powers[usize::from(digit)])
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_piece_has_its_checksum() {
        let bytes: Vec<u8> = (0..2000u32).map(|n| (n * n / 7).to_le_bytes()[0]).collect();
        for every in [1, 3, 64, 4096] {
            let mut sums = Sums::new(every);
            // In pieces of all lengths.
            let mut rest = &bytes[..];
            for n in 0.. {
                let (piece, behind) = rest.split_at(rest.len().min(n));
                sums.append(piece);
                rest = behind;
                if rest.is_empty() {
                    break;
                }
            }
            let up_to = |at: usize| {
                let from = usize::try_from(sums.noted_before(at as u64)).unwrap();
                sums.up_to(at as u64, &bytes[from..at])
            };
            for (from, to) in (0..2000).step_by(37).zip((0..=2000).rev().step_by(13)) {
                let (from, to) = (from.min(to), from.max(to));
                for start in [0, 1, 0xdead_beef] {
                    let found = sums.between(start, up_to(from), up_to(to));
                    assert_eq!(found, crc32c(start, &bytes[from..to]), "{from} {to}");
                }
            }
        }
    }

    #[test]
    fn long_pieces_too() {
        let zeros = vec![0; 1 << 20];
        let mut sums = Sums::new(1 << 20);
        let mut crc = 99;
        for _ in 0..20 {
            sums.append(&zeros);
            crc = crc32c(crc, &zeros);
        }
        let (from, to) = (sums.up_to(0, &[]), sums.up_to(20 << 20, &[]));
        assert_eq!(sums.between(99, from, to), crc);
    }
}
