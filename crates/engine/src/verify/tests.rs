//! What is damage, where somebody writes.

use super::*;

#[test]
fn a_fault_is_what_two_moments_have() {
    let mut moments = Moments::default();
    let mut check = |offsets: &[u64], region: Result<()>| {
        let fault = |offset: &u64| Fault {
            place: "region".into(),
            offset: *offset,
            what: "rot".into(),
        };
        let mut part = Report {
            faults: offsets.iter().map(fault).collect(),
            ..Report::default()
        };
        let so = is_so(&mut moments, &mut part, &region);
        let left: Vec<u64> = part.faults.iter().map(|fault| fault.offset).collect();
        so.then_some(left)
    };
    let cut = || Err(Error::Busy("what tells of chains is written".into()));
    assert_eq!(check(&[], Ok(())), Some(Vec::new()));
    // There is damage at 7. What else there is passes, whether it is told of before that or behind it.
    assert_eq!(check(&[3, 7], Ok(())), None);
    assert_eq!(check(&[7, 9], Ok(())), Some(vec![7]));
    // A check that was cut short has not seen all of it.
    assert_eq!(check(&[7], cut()), None);
    assert_eq!(check(&[7, 9], Ok(())), Some(vec![7]));
    assert_eq!(check(&[5], Ok(())), None);
    assert_eq!(check(&[6], cut()), None);
    assert_eq!(check(&[6], cut()), Some(vec![6]));
}
