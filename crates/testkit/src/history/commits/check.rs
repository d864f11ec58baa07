//! The verdict on a history of commits.

use super::bounds::{Reach, Why};
use super::versions::keys;
use super::{History, Moment, Seen, Stamp};
use crate::history::cycle::report_cycles;
use crate::history::graph::{Edge, Graph};
use crate::history::time::real_time;
use crate::history::{Class, Report};

/// Looks for an order of all commits that explains every read; the module says how.
///
/// ```
/// use thermocline_testkit::history::commits::{Client, History, Write, check};
/// use thermocline_testkit::history::{Class, Clock, Outcome};
/// let clock = Clock::default();
/// let mut client = Client::new(0, 0);
/// let stamp = client.next_stamp();
/// client.commit(clock.step(), [1, 2].map(|key| Write { key, put: true }));
/// client.end(Outcome::Acknowledged(clock.step()));
/// let read = client.read(clock.step());
/// client.moment(read, clock.step());
/// client.saw(read, 1, Some(stamp));
/// client.saw(read, 2, None);
/// let history = History { clients: vec![client], ..History::default() };
/// let report = check(&history);
/// assert_eq!(report.anomalies[0].class, Class::LostWrite);
/// ```
pub fn check(history: &History) -> Report {
    let mut check = Check::new(history);
    check.reads();
    check.commits();
    check.finish()
}

struct Check<'h> {
    history: &'h History,
    report: Report,
    edges: Vec<(u32, u32, Edge)>,
    spans: Vec<(u64, Option<u64>, u32)>,
    /// The node of each client's first commit.
    commits_from: Vec<u32>,
    /// The node of each client's first read; at the end, behind all of them.
    reads_from: Vec<u32>,
}

fn node(n: usize) -> u32 {
    u32::try_from(n).expect("operations are numbered in 32 bits")
}

impl<'h> Check<'h> {
    fn new(history: &'h History) -> Check<'h> {
        let mut next = 0;
        let mut number = |counts: &mut dyn Iterator<Item = usize>| {
            let mut from = vec![node(next)];
            for count in counts {
                next += count;
                from.push(node(next));
            }
            from
        };
        let clients = &history.clients;
        let commits_from = number(&mut clients.iter().map(|c| c.commits.len()));
        let reads_from = number(&mut clients.iter().map(|c| c.reads.len()));
        Check {
            history,
            report: Report::default(),
            edges: Vec::new(),
            spans: Vec::new(),
            commits_from,
            reads_from,
        }
    }

    fn commit(&self, client: usize, number: u32) -> u32 {
        let before = self.history.clients[client].before;
        self.commits_from[client] + number - before - 1
    }

    /// Narrows every read, and puts it between the commits that it saw and those that it did not.
    fn reads(&mut self) {
        let keys = keys(self.history);
        let mut reach = Reach::new(self.history, &keys);
        for (c, client) in self.history.clients.iter().enumerate() {
            assert_eq!(usize::from(client.writer), c, "clients are in their order");
            let seen = by_read(&client.seen, client.reads.len());
            for (r, read) in client.reads.iter().enumerate() {
                let me = self.reads_from[c] + node(r);
                if let Moment::Live(began, ended) = read.moment {
                    self.spans.push((began, (ended > 0).then_some(ended), me));
                }
                let observed = match once(seen.of(r)) {
                    Ok(observed) => observed,
                    Err(key) => {
                        let story = || format!("{} saw key {key} change", self.tell(me));
                        let story = story();
                        self.report.add(Class::Unrepeatable, || story);
                        continue;
                    }
                };
                self.report.observations += observed.len() as u64;
                if let Err((class, story)) = reach.of(read, &observed) {
                    let story = format!("{}: {story}", self.tell(me));
                    self.report.add(class, || story);
                    continue;
                }
                self.place(me, &reach);
                for &(key, stamp) in &observed {
                    let shared = keys.get(key as usize).filter(|key| key.writers.len() > 1);
                    if let Some(known) = shared
                        && let Some((source, number)) = reach.source(key, stamp)
                    {
                        self.overwritten(known, &reach, source, number);
                    }
                }
            }
        }
    }

    /// Puts a read where its bounds say. What follows from real time alone has edges already.
    fn place(&mut self, me: u32, reach: &Reach<'_>) {
        for (c, bound) in reach.bounds.iter().enumerate() {
            let client = &self.history.clients[c];
            let told = |why| matches!(why, Why::Key(_) | Why::Durable);
            if told(bound.low_why) && bound.low > client.before {
                let last = self.commit(c, bound.low);
                self.edges.push((last, me, Edge::WriteRead));
            }
            if told(bound.high_why) && bound.high < client.last() {
                let next = self.commit(c, bound.high + 1);
                self.edges.push((me, next, Edge::ReadWrite));
            }
        }
    }

    /// All other writes to the key that a read saw lie before the one whose value it found.
    fn overwritten(
        &mut self,
        key: &super::versions::Key,
        reach: &Reach<'_>,
        source: usize,
        number: u32,
    ) {
        let to = self.commit(source, number);
        for other in key.writers.iter().filter(|w| w.client != source) {
            if let Some(last) = other.last(reach.bounds[other.client].low) {
                let from = self.commit(other.client, last.number);
                self.edges.push((from, to, Edge::WriteWrite));
            }
        }
    }

    fn commits(&mut self) {
        for (c, client) in self.history.clients.iter().enumerate() {
            for number in client.before + 1..=client.last() {
                let (me, commit) = (self.commit(c, number), client.get(number));
                self.spans
                    .push((commit.began, commit.outcome.returned(), me));
            }
        }
    }

    fn finish(mut self) -> Report {
        let operations = *self.reads_from.last().expect("it begins with 0");
        let mut nodes = operations;
        real_time(&self.spans, &mut nodes, &mut self.edges);
        let graph = Graph::new(nodes as usize, &self.edges);
        let mut report = std::mem::take(&mut self.report);
        report.operations = u64::from(operations);
        report.edges = self.edges.len() as u64;
        self.edges = Vec::new();
        report_cycles(&graph, operations, |node| self.tell(node), &mut report);
        report
    }

    fn tell(&self, node: u32) -> String {
        let place = |from: &[u32]| {
            let client = from.partition_point(|&first| first <= node) - 1;
            (client, node - from[client])
        };
        if node >= self.reads_from[0] {
            let (c, r) = place(&self.reads_from);
            return match self.history.clients[c].reads[r as usize].moment {
                Moment::Live(began, ended) => {
                    format!("a read of client {c} at steps {began} to {ended}")
                }
                Moment::Recovered(_) => format!("the read of client {c} after a crash"),
            };
        }
        let (c, n) = place(&self.commits_from);
        let commit = &self.history.clients[c].commits[n as usize];
        let number = self.history.clients[c].before + n + 1;
        match commit.outcome.acknowledged() {
            Some(ended) => {
                let began = commit.began;
                format!("commit {number} of client {c} at steps {began} to {ended}")
            }
            None => format!("commit {number} of client {c} from step {}", commit.began),
        }
    }
}

/// What each read of one client saw.
struct ByRead {
    /// Where each read's begins; one more than there are reads.
    starts: Vec<usize>,
    seen: Vec<(u32, Option<Stamp>)>,
}

impl ByRead {
    fn of(&self, read: usize) -> &[(u32, Option<Stamp>)] {
        &self.seen[self.starts[read]..self.starts[read + 1]]
    }
}

fn by_read(all: &[Seen], reads: usize) -> ByRead {
    let mut starts = vec![0; reads + 1];
    for seen in all {
        starts[seen.read.0 as usize + 1] += 1;
    }
    for read in 0..reads {
        starts[read + 1] += starts[read];
    }
    let mut next = starts.clone();
    let mut sorted = vec![(0, None); all.len()];
    for seen in all {
        let at = &mut next[seen.read.0 as usize];
        sorted[*at] = (seen.key, seen.stamp);
        *at += 1;
    }
    ByRead {
        starts,
        seen: sorted,
    }
}

/// Each key once; or a key that was seen with two answers.
fn once(seen: &[(u32, Option<Stamp>)]) -> Result<Vec<(u32, Option<Stamp>)>, u32> {
    let mut seen = seen.to_vec();
    seen.sort_unstable();
    seen.dedup();
    match seen.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        Some(pair) => Err(pair[0].0),
        None => Ok(seen),
    }
}
