//! Drives adaptive loads: judges the requests of each window, and sets the level of the next.

use std::sync::Arc;

use base::column::Store;
use base::lock::Lock;
use base::units::{Clock, Nanos};
use client::record::ErrorKind;
use client::runner::Dial;
use client::schedule::config::PhaseConfig;
use client::schedule::{Adaptive, AdaptiveEnd, Controller, PhaseStats};
use measure::judge::adaptive::{
    AdaptivePath, Conditions, Outcomes, Window, WindowVerdict, judge_window,
};
use measure::metrics::Registry;
use measure::metrics::breakdown::Levels;
use measure::metrics::metric::{MeasuredRecord, MetricResult};
use results::follow::{Follower, Followers, Progress};

/// Follows a run, and drives its adaptive loads; does nothing without any.
#[derive(Default)]
pub(super) struct AdaptiveLoads {
    dials: Vec<Option<Dial>>,
    watch: Option<Arc<Watch>>,
}

/// The path of each adaptive load so far, and the results of all of their windows in order.
pub(super) type Paths = (Vec<AdaptivePath>, Vec<Vec<MetricResult>>);

struct Watch {
    clock: Clock,
    state: Lock<State>,
}

struct State {
    courses: Vec<Course>,
    levels: Levels,
}

/// An adaptive load of one phase.
struct Course {
    phase_index: u32,
    name: Arc<str>,
    adaptive: Adaptive,
    most: f64,
    conditions: Conditions,
    dial: Dial,
    controller: Controller,
    /// Number of records of the phase that were processed.
    processed: u64,
    /// Number of the first window of this phase among those of all phases.
    first_window: usize,
    windows: Vec<Window>,
    waits: Wait,
    end: Option<AdaptiveEnd>,
}

/// What an adaptive load waits for. Each wait but that for the start of the phase ends after the length of a
/// window.
#[derive(Debug, Clone, Copy)]
enum Wait {
    /// For the start of the phase.
    Start,
    /// For the end of the requests that were sent before the level changed: before this mark, at this time.
    Settled(u64, Nanos),
    /// For the end of the window that started with this mark, at this time.
    Window(u64, Nanos),
    /// For the end of the window's requests, which have this mark; the window ended at this time.
    Answers(u64, Nanos),
    /// For these records, which have returned, to be processed.
    Records { since: Nanos, returned: Option<u64> },
    /// For nothing more.
    Over,
}

impl AdaptiveLoads {
    /// Prepares the adaptive ones of `phases`, the values of whose windows will be in `store`.
    pub(super) fn new(
        phases: &[PhaseConfig],
        registry: &Arc<Registry>,
        store: &Store,
        clock: Clock,
    ) -> Self {
        let courses: Vec<Course> = (0..).zip(phases).filter_map(Course::for_phase).collect();
        if courses.is_empty() {
            return Self::default();
        }
        let dial = |index: usize| {
            let course = courses.iter().find(|course| course.phase_index as usize == index);
            course.map(|course| course.dial.clone())
        };
        let dials = (0..phases.len()).map(dial).collect();
        let levels = Levels::new(Arc::clone(registry), store.clone());
        let state = Lock::new(State { courses, levels });
        Self { dials, watch: Some(Arc::new(Watch { clock, state })) }
    }

    /// Returns `followers` and this one, if it has anything to do.
    pub(super) fn among(&self, followers: &Followers) -> Followers {
        let mut all = followers.clone();
        if let Some(watch) = &self.watch {
            all.add(Arc::<Watch>::clone(watch));
        }
        all
    }

    /// Returns what sets the load of each adaptive phase, by its index.
    pub(super) fn dials(&self) -> Vec<Option<Dial>> {
        self.dials.clone()
    }

    /// Returns what came out, once all records have been processed.
    pub(super) fn paths(&self) -> Paths {
        let Some(watch) = &self.watch else { return Paths::default() };
        let mut state = watch.state.lock();
        let state = &mut *state;
        for course in &mut state.courses {
            course.cut(&mut state.levels, watch.clock);
        }
        let begun = state.courses.iter().filter(|course| !course.windows.is_empty());
        (begun.map(Course::path).collect(), state.levels.results())
    }
}

impl Course {
    /// Prepares the load of the phase with this index, if it is adaptive.
    fn for_phase((phase_index, phase): (u32, &PhaseConfig)) -> Option<Self> {
        let adaptive = phase.adaptive.clone()?;
        let most = phase.most_of(adaptive.control)?;
        let controller = Controller::new(&adaptive, most);
        Some(Self {
            phase_index,
            name: phase.name().into(),
            most,
            conditions: Conditions::from_adaptive(&adaptive),
            dial: Dial::new(controller.level()),
            controller,
            adaptive,
            processed: 0,
            first_window: 0,
            windows: Vec::new(),
            waits: Wait::Start,
            end: None,
        })
    }

    /// Goes on, if what it waits for has happened.
    fn look(&mut self, phase: &PhaseStats, levels: &mut Levels, clock: Clock) {
        let now = Clock::now();
        let is_late = |since: Nanos| now.since(since) >= self.adaptive.window;
        match self.waits {
            Wait::Start => self.start(phase, levels, clock),
            Wait::Settled(mark, since) if self.dial.in_flight(0..mark) == 0 || is_late(since) => {
                let (mark, start) = self.dial.mark();
                self.begin(mark, start, levels, clock);
            }
            Wait::Window(mark, start) if is_late(start) => {
                let (_, end) = self.dial.mark();
                self.close(clock.wall_ns(end), levels);
                self.waits = Wait::Answers(mark, end);
            }
            Wait::Answers(mark, since)
                if self.dial.in_flight(mark..mark + 1) == 0 || is_late(since) =>
            {
                if let Some(window) = self.windows.last_mut() {
                    window.requests.unanswered = self.dial.in_flight(mark..mark + 1);
                }
                // What has returned by now is only known by the next look.
                self.waits = Wait::Records { since: now, returned: None };
            }
            Wait::Records { since, returned: None } => {
                let returned = Some(phase.requests_returned);
                self.waits = Wait::Records { since, returned };
                self.look(phase, levels, clock);
            }
            Wait::Records { since, returned: Some(returned) }
                if self.processed >= returned || is_late(since) =>
            {
                self.judge(levels, clock);
            }
            _ => {}
        }
    }

    /// Begins the first window at the start of the phase; or moves it there, if requests of the phase ended
    /// before it was known.
    fn start(&mut self, phase: &PhaseStats, levels: &mut Levels, clock: Clock) {
        if let Some(first) = self.windows.last_mut() {
            first.start_ns = clock.wall_ns(phase.start);
            levels.start(first.start_ns);
        } else {
            self.open(clock.wall_ns(phase.start), levels);
        }
        self.waits = Wait::Window(0, phase.start);
    }

    /// Has the first window begin at this time at the latest, in nanoseconds since the epoch: requests of it
    /// may end before the progress of the phase is known.
    fn expect(&mut self, start_ns: u64, levels: &mut Levels) {
        match self.windows.last_mut() {
            None => self.open(start_ns, levels),
            Some(first) if start_ns < first.start_ns => {
                first.start_ns = start_ns;
                levels.start(start_ns);
            }
            Some(_) => {}
        }
    }

    /// Begins a window with this mark, at this time.
    fn begin(&mut self, mark: u64, at: Nanos, levels: &mut Levels, clock: Clock) {
        self.open(clock.wall_ns(at), levels);
        self.waits = Wait::Window(mark, at);
    }

    /// Adds a window that starts at this time, in nanoseconds since the epoch.
    fn open(&mut self, start_ns: u64, levels: &mut Levels) {
        if self.windows.is_empty() {
            self.first_window = levels.len();
        }
        levels.add(self.phase_index, start_ns..u64::MAX);
        self.windows.push(Window {
            level: self.controller.level(),
            stage: self.controller.stage(),
            start_ns,
            end_ns: u64::MAX,
            requests: Outcomes::default(),
            verdict: WindowVerdict::Unfinished,
            conditions: Vec::new(),
        });
    }

    /// Ends the window at this time, in nanoseconds since the epoch.
    fn close(&mut self, at: u64, levels: &mut Levels) {
        levels.end(at);
        if let Some(window) = self.windows.last_mut() {
            window.end_ns = at;
        }
    }

    /// Judges the window, and sets the level of the next.
    fn judge(&mut self, levels: &mut Levels, clock: Clock) {
        let number = self.first_window + self.windows.len().saturating_sub(1);
        let Some(window) = self.windows.last_mut() else { return };
        let (verdict, conditions, finding) = judge_window(
            &self.conditions,
            &window.requests,
            self.adaptive.least_completed,
            &levels.results_of_window(number),
        );
        window.verdict = verdict;
        window.conditions = conditions;
        let lasted = Nanos(window.end_ns.saturating_sub(window.start_ns));
        let level = self.controller.level();
        if let Some(end) = self.controller.judge(finding, lasted) {
            self.end = Some(end);
            self.waits = Wait::Over;
            self.dial.end();
        } else if self.controller.level() == level {
            let (mark, start) = self.dial.mark();
            self.begin(mark, start, levels, clock);
        } else {
            let (mark, changed) = self.dial.mark();
            self.dial.set(self.controller.level());
            self.waits = Wait::Settled(mark, changed);
        }
    }

    /// Ends the path, since the phase has ended.
    fn cut(&mut self, levels: &mut Levels, clock: Clock) {
        if self.end.is_some() {
            return;
        }
        if matches!(self.waits, Wait::Start | Wait::Window(..)) && !self.windows.is_empty() {
            self.close(clock.wall_ns(Clock::now()), levels);
        }
        self.end = Some(AdaptiveEnd::PhaseEnded);
        self.waits = Wait::Over;
    }

    fn path(&self) -> AdaptivePath {
        let end = self.end.unwrap_or(AdaptiveEnd::PhaseEnded);
        let level = self.controller.level();
        AdaptivePath {
            phase_index: self.phase_index,
            phase: Arc::clone(&self.name),
            adaptive: self.adaptive.clone(),
            most: self.most,
            end,
            boundary: (end == AdaptiveEnd::Sustained).then_some(level),
            last_passing: self.controller.passing(),
            first_failing: self.controller.failing(),
            level,
            windows: self.windows.clone(),
        }
    }
}

impl Follower for Watch {
    fn record(&self, record: &MeasuredRecord) {
        let mut state = self.state.lock();
        let State { courses, levels } = &mut *state;
        let index = record.record.phase_index;
        let Some(course) = courses.iter_mut().find(|course| course.phase_index == index) else {
            return;
        };
        course.processed += 1;
        let observation = &record.observation;
        if matches!(course.waits, Wait::Start) {
            course.expect(observation.start_wall_ns, levels);
        }
        let Some(number) = levels.observe(index, observation) else { return };
        let window = course.windows.get_mut(number - course.first_window);
        // What ends after the verdict was counted as unanswered.
        let is_open = |window: &&mut Window| window.verdict == WindowVerdict::Unfinished;
        let Some(window) = window.filter(is_open) else { return };
        let requests = &mut window.requests;
        *match &observation.error {
            None => &mut requests.completed,
            Some(error) if error.kind == ErrorKind::Cancelled => &mut requests.cancelled,
            Some(_) => &mut requests.errored,
        } += 1;
    }

    fn progress(&self, progress: &Progress<'_>) {
        let mut state = self.state.lock();
        let State { courses, levels } = &mut *state;
        for phase in progress.phases {
            let mut of_phase = courses.iter_mut();
            let Some(course) = of_phase.find(|course| course.phase_index == phase.phase_index)
            else {
                continue;
            };
            if phase.requests_end.is_some() {
                if matches!(course.waits, Wait::Start) {
                    course.start(phase, levels, self.clock);
                }
                course.cut(levels, self.clock);
            } else {
                course.look(phase, levels, self.clock);
            }
        }
    }
}
