//! A thread that stands still where something is about to become durable, so that others are seen to wait for it or not; or
//! that dies there.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use thermocline_base::{Point, When};

use super::*;
use crate::sync::{Mutex, lock};

/// The first thread that comes there stands still.
pub(crate) struct Stopped {
    reached: Receiver<()>,
    goes_on: Sender<()>,
}

impl Stopped {
    /// Waits until one has come there.
    pub fn wait(&self) {
        self.reached.recv().unwrap();
    }

    /// It goes on.
    pub fn let_go(&self) {
        self.goes_on.send(()).unwrap();
    }
}

impl Machine {
    /// Has the first thread stand still that comes to this site from now on, before anything becomes durable.
    pub fn stop_before(&self, site: &'static str) -> Stopped {
        let (told, reached) = channel();
        let (goes_on, may_go_on) = channel();
        let (first, may_go_on) = (AtomicBool::new(true), Mutex::new(may_go_on));
        self.fs.steps().observe(Some(Arc::new(move |point| {
            let is_there = point.site.0 == site && point.when == When::Before;
            if is_there && first.swap(false, Ordering::SeqCst) {
                told.send(()).unwrap();
                lock(&may_go_on).recv().unwrap();
            }
        })));
        Stopped { reached, goes_on }
    }

    /// Has each thread die that comes to this site from now on, before anything becomes durable.
    pub fn die_before(&self, site: &'static str) {
        let dies = move |point: Point| {
            let is_there = point.site.0 == site && point.when == When::Before;
            assert!(!is_there, "planned");
        };
        self.fs.steps().observe(Some(Arc::new(dies)));
    }
}
