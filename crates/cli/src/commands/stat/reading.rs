//! How reads reach the device.

use std::io;

use serde_json::{Value, json};
use thermocline::options::AsyncIo;
use thermocline::{Metrics, Refused};

/// How futures and jobs read, as rows: a name, and what there is to say.
pub(super) fn rows(m: &Metrics) -> Vec<(&'static str, String)> {
    let Some(runtime) = m.runtime else {
        return Vec::new();
    };
    let (reads, jobs) = (runtime.async_reads, runtime.job_io);
    vec![
        (
            "reads of futures",
            told(reads.way, reads.refused, "by threads for now"),
        ),
        (
            "reads of jobs",
            told(jobs.way, jobs.refused, "each waits for its own"),
        ),
    ]
}

fn told(way: Option<AsyncIo>, refused: Option<Refused>, unknown: &str) -> String {
    let way = match way {
        None => unknown,
        Some(AsyncIo::Interrupt) => "io_uring, with interrupts",
        Some(AsyncIo::Sqpoll) => "io_uring, with sqpoll: the kernel polls for reads",
        Some(AsyncIo::Iopoll) => "io_uring, with iopoll: the device is polled",
        Some(AsyncIo::Threads) => "threads",
    };
    match refused {
        None => way.to_string(),
        Some(of) => format!(
            "{way}; the system refuses {}: {}",
            of.way.name(),
            why(of).unwrap_or_else(|| "no error is known".to_string())
        ),
    }
}

/// What the system says.
fn why(refused: Refused) -> Option<String> {
    let error = || io::Error::from_raw_os_error(refused.errno).to_string();
    (refused.errno != 0).then(error)
}

/// What was refused, as a member of the document.
pub(super) fn refused_as_json(refused: Option<Refused>) -> Value {
    let of = refused.map(|of| {
        json!({
            "way": of.way.name(),
            "errno": of.errno,
            "why": why(of),
        })
    });
    of.unwrap_or(Value::Null)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_told_what_is_used_and_why_not_what_was_asked_for() {
        let refused = |way, errno| Some(Refused { way, errno });
        assert_eq!(told(Some(AsyncIo::Threads), None, "-"), "threads");
        let of = refused(AsyncIo::Interrupt, 1);
        let text = told(Some(AsyncIo::Threads), of, "-");
        assert!(
            text.starts_with("threads; the system refuses interrupt: "),
            "{text}"
        );
        assert!(text.ends_with("(os error 1)"), "{text}");
        let of = refused(AsyncIo::Iopoll, 0);
        assert_eq!(
            told(Some(AsyncIo::Interrupt), of, "-"),
            "io_uring, with interrupts; the system refuses iopoll: no error is known"
        );
        assert_eq!(told(None, None, "-"), "-");
        let document = refused_as_json(refused(AsyncIo::Sqpoll, 12));
        assert_eq!(
            (&document["way"], &document["errno"]),
            (&json!("sqpoll"), &json!(12))
        );
        assert!(document["why"].is_string());
        assert!(refused_as_json(None).is_null());
    }
}
