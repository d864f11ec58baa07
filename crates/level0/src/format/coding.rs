//! Fields: how they are read from bytes that nobody vouches for, and what keys share.

use thermocline_base::numbers::u64_at;

/// Takes `len` bytes at `at` and moves behind them.
#[inline]
pub(crate) fn take<'a>(bytes: &'a [u8], at: &mut usize, len: usize) -> Option<&'a [u8]> {
    let taken = bytes.get(*at..at.checked_add(len)?)?;
    *at += len;
    Some(taken)
}

/// How many bytes two keys begin with together.
#[inline]
pub(crate) fn shared(a: &[u8], b: &[u8]) -> usize {
    let len = a.len().min(b.len());
    let mut at = 0;
    while at + 8 <= len {
        let differ = u64_at(a, at) ^ u64_at(b, at);
        if differ != 0 {
            return at + differ.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    let (a, b) = (&a[at..len], &b[at..len]);
    at + a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_keys_share_is_found_at_every_length() {
        for len in 0..40 {
            let a = vec![7; len];
            assert_eq!(shared(&a, &a), len);
            for at in 0..len {
                let mut b = a.clone();
                b[at] = 8;
                b.push(1);
                assert_eq!(shared(&a, &b), at);
                assert_eq!(shared(&a[..at], &b), at);
            }
        }
    }
}
