//! The registered names as a list in the type system: an end, a node, and one trait that walks it.

use std::any::TypeId;
use std::borrow::Cow;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ruststream::{HeaderMap, Str};

use crate::consumers::Consumers;
use crate::group_commit::Lane;
use crate::handlers::{Handlers, Mount, MountId, Part};
use crate::pace::Pace;
use crate::recording::{IdText, Recording};
use crate::retry::{Expected, Retries};
use crate::settling::Settling;
use crate::{Backend, Mark, Publish, Record, Statements, Stored};

/// A name that is tracked, as a type: for [`track`](crate::Outbox::track), where a repeated name
/// does not compile.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a tracked name",
    label = "not a tracked name",
    note = "write `impl outbox::TrackedName for {Self} {{ const NAME: &'static str = \"..\"; }}`, \
            or register the name as a value: `.register::<Record>(\"..\")`"
)]
pub trait TrackedName: 'static {
    /// The name that messages are published under.
    const NAME: &'static str;
}

/// The registered names, whatever their record types.
pub trait Names: Clone + Send + Sync + 'static {
    /// The names that the compiler knows.
    const KNOWN: Option<&'static Known>;

    /// What is registered under `name`, or as the subscription of that name.
    fn find(&self, name: &str) -> Option<&Arc<Registered>>;

    /// Everything that is registered, in the order of registration.
    fn all<'a>(&'a self, all: &mut Vec<&'a Arc<Registered>>);
}

/// The registered names with their record types, which the driver `B` can record and mark.
pub trait Walk<B: Backend>: Names {
    /// Runs `visit` with the record type that is registered under `name`. `None`: the name is not
    /// registered.
    fn walk<V: Visit<B>>(
        &self,
        name: &str,
        visit: V,
    ) -> impl Future<Output = Option<V::Output>> + Send;
}

/// What is to be done with the record type of a name.
pub trait Visit<B: Backend>: Sized + Send {
    /// What it comes to.
    type Output: Send;

    /// Does it, with what is known of the name.
    fn visit<R>(self, registered: &Arc<Registered>) -> impl Future<Output = Self::Output> + Send
    where
        R: Publish<B> + Mark<B>,
        B: Statements<R>;
}

/// The end of the list.
#[derive(Debug, Clone, Copy, Default)]
pub struct Nil;

impl Names for Nil {
    const KNOWN: Option<&'static Known> = None;

    fn find(&self, _name: &str) -> Option<&Arc<Registered>> {
        None
    }

    fn all<'a>(&'a self, _all: &mut Vec<&'a Arc<Registered>>) {}
}

impl<B: Backend> Walk<B> for Nil {
    async fn walk<V: Visit<B>>(&self, _name: &str, _visit: V) -> Option<V::Output> {
        None
    }
}

/// A name with its record type `R`, in front of the names registered before it. `N` is the name as
/// a type, where it has one.
#[derive(Debug)]
pub struct Node<R, L = Nil, N = Unnamed> {
    registered: Arc<Registered>,
    before: L,
    types: PhantomData<fn() -> (R, N)>,
}

impl<R: Record, L, N> Node<R, L, N> {
    pub(crate) fn new(name: Cow<'static, str>, before: L) -> Self {
        Self::with(Registered::new::<R>(name), before)
    }

    pub(crate) fn registered(&self) -> &Registered {
        &self.registered
    }

    fn with(registered: Registered, before: L) -> Self {
        Self {
            registered: Arc::new(registered),
            before,
            types: PhantomData,
        }
    }

    /// Declares the handler `H` as a consumer of the name.
    #[track_caller]
    pub(crate) fn consumer<H>(mut self, bit: u32) -> Self {
        let name = self.registered.name.clone();
        assert!(
            self.registered.is_name(),
            "`{name}` is a subscription: declare consumers behind the name that they consume"
        );
        let Some(registered) = Arc::get_mut(&mut self.registered) else {
            panic!(
                "the consumers of `{name}` are declared where it is registered, before a clone, a \
                 handle or a layer is taken of the registry: those would not know of them"
            );
        };
        registered.consumers.declare::<H>(&name, bit);
        self
    }
}

impl<R: Record, L: Names> Node<R, L> {
    /// A subscription whose name is not a published one: it delivers what was recorded under any
    /// name of `R` that is registered before. `None`: there is no such name.
    pub(crate) fn subscription(name: Cow<'static, str>, before: L) -> Option<Self> {
        let mut names = Vec::new();
        before.all(&mut names);
        names.retain(|name| name.is_name() && name.record == TypeId::of::<R>());
        let mut registered = Registered::new::<R>(name);
        registered.delivers = names.into_iter().map(Arc::clone).collect();
        (!registered.is_name()).then(|| Self::with(registered, before))
    }
}

impl<R: Record> Node<R> {
    /// A list of one name that another list registered: what is known of the name is shared.
    /// `None`: it is registered for another record type.
    pub(crate) fn share(registered: &Arc<Registered>) -> Option<Self> {
        (registered.record == TypeId::of::<R>()).then(|| Self {
            registered: Arc::clone(registered),
            before: Nil,
            types: PhantomData,
        })
    }
}

impl<R, L: Clone, N> Clone for Node<R, L, N> {
    fn clone(&self) -> Self {
        Self {
            registered: Arc::clone(&self.registered),
            before: self.before.clone(),
            types: PhantomData,
        }
    }
}

impl<R: 'static, L: Names, N: KnownName> Names for Node<R, L, N> {
    const KNOWN: Option<&'static Known> = match N::KNOWN {
        Some(name) => Some(&Known {
            name,
            before: L::KNOWN,
        }),
        None => L::KNOWN,
    };

    fn find(&self, name: &str) -> Option<&Arc<Registered>> {
        if self.registered.name == name {
            Some(&self.registered)
        } else {
            self.before.find(name)
        }
    }

    fn all<'a>(&'a self, all: &mut Vec<&'a Arc<Registered>>) {
        self.before.all(all);
        all.push(&self.registered);
    }
}

impl<B, R, L, N> Walk<B> for Node<R, L, N>
where
    B: Statements<R>,
    R: Publish<B> + Mark<B>,
    L: Walk<B>,
    N: KnownName,
{
    async fn walk<V: Visit<B>>(&self, name: &str, visit: V) -> Option<V::Output> {
        if self.registered.name == name {
            Some(visit.visit::<R>(&self.registered).await)
        } else {
            self.before.walk(name, visit).await
        }
    }
}

/// What is known of a registered name, or subscription, beside its record type.
#[derive(Debug)]
pub struct Registered {
    name: Cow<'static, str>,
    record: TypeId,
    /// Of a subscription, the names whose records it delivers.
    delivers: Vec<Arc<Registered>>,
    consumers: Consumers,
    unidentified: AtomicBool,
    pub(crate) pace: Pace,
    retries: Retries,
    handlers: Handlers,
    pub(crate) records: Lane<Recording, IdText>,
    pub(crate) reads: Lane<Str, Option<Stored>>,
    pub(crate) marks: Lane<Settling, bool>,
}

impl Registered {
    fn new<R: Record>(name: Cow<'static, str>) -> Self {
        Self {
            name,
            record: TypeId::of::<R>(),
            delivers: Vec::new(),
            consumers: Consumers::default(),
            unidentified: AtomicBool::new(false),
            pace: Pace::default(),
            retries: Retries::default(),
            handlers: Handlers::default(),
            records: Lane::default(),
            reads: Lane::default(),
            marks: Lane::default(),
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Whether messages are published, and recorded, under the name. Otherwise it is a
    /// subscription's.
    pub(crate) fn is_name(&self) -> bool {
        self.delivers.is_empty()
    }

    /// The name that a record which arrives here was written under, if it is one of those whose
    /// records arrive here.
    pub(crate) fn of_record(&self, name: &str) -> Option<&Self> {
        self.arriving().find(|arriving| arriving.name == name)
    }

    /// The names whose records arrive here: of a name, itself.
    fn arriving(&self) -> impl Iterator<Item = &Self> {
        let own = self.is_name().then_some(self);
        own.into_iter().chain(self.delivers.iter().map(Arc::as_ref))
    }

    /// What the outcome of a handler does to the records of the name.
    pub(crate) fn meet(&self, mount: Mount) -> Part {
        self.handlers.meet(&self.name, &self.consumers, mount)
    }

    /// Whether several undeclared handlers receive the name.
    pub(crate) fn has_several_handlers(&self) -> bool {
        self.handlers.several()
    }

    /// Whether a record that arrives here may have met another handler than this one.
    pub(crate) fn may_have_met_beside(&self, mount: Mount) -> bool {
        self.arriving().any(|name| name.handlers.met_beside(mount))
    }

    /// The declared consumers of the name that no handler of this process was yet.
    pub(crate) fn missing_consumers(&self) -> Vec<&'static str> {
        self.handlers.missing(&self.consumers)
    }

    /// A batch handler has a batch.
    pub(crate) fn see(&self, mount: Mount) {
        for name in self.arriving() {
            name.handlers.see(&name.consumers, mount);
        }
    }

    /// A handler is mounted, for this name or for another one. Panics where it would be two
    /// consumers of the name.
    pub(crate) fn mount(&self, mount: Mount) {
        self.handlers.see(&self.consumers, mount);
        if let Some((first, second)) = self.consumers.ambiguous(mount.handler) {
            panic!(
                "the handler `{}` names two consumers of `{}`, `{first}` and `{second}`: mount \
                 each consumer as a handler of its own",
                mount.handler, self.name
            );
        }
    }

    /// A delivery of the record was answered with a retry: see [`Retries::expect`].
    pub(crate) fn expect_copy(&self, mount: MountId, id: &str, count: u64, copy: &Expected) {
        for name in self.arriving() {
            name.retries.expect(mount, id, count, copy.clone());
        }
    }

    /// A delivery of the record arrived: see [`Retries::arrived`].
    pub(crate) fn arrived(&self, mount: MountId, id: &str, count: u64) -> bool {
        let mut coming = false;
        for name in self.arriving() {
            coming |= name.retries.arrived(mount, id, count);
        }
        coming
    }

    /// Whether a message for the name is a copy that was expected. It is expected no longer.
    pub(crate) fn is_copy(&self, headers: &HeaderMap) -> bool {
        self.retries.is_copy(headers)
    }

    /// Whether this is the first delivery without an id: the one that is warned of.
    pub(crate) fn first_without_id(&self) -> bool {
        !self.unidentified.swap(true, Ordering::Relaxed)
    }
}

/// The names of a list as far as the compiler knows them.
#[derive(Debug)]
pub struct Known {
    name: &'static str,
    before: Option<&'static Known>,
}

/// Whether `name` is among `known`.
pub(crate) const fn knows(mut known: Option<&'static Known>, name: &str) -> bool {
    while let Some(Known {
        name: known_name,
        before,
    }) = known
    {
        if equal(known_name.as_bytes(), name.as_bytes()) {
            return true;
        }
        known = *before;
    }
    false
}

const fn equal(left: &[u8], right: &[u8]) -> bool {
    if left.len() != right.len() {
        return false;
    }
    let mut at = 0;
    while at < left.len() {
        if left[at] != right[at] {
            return false;
        }
        at += 1;
    }
    true
}

/// A name that the compiler may know.
pub trait KnownName: 'static {
    /// The name, if it does.
    const KNOWN: Option<&'static str>;
}

/// A name that is a value: the compiler does not know it.
#[derive(Debug, Clone, Copy)]
pub struct Unnamed;

impl KnownName for Unnamed {
    const KNOWN: Option<&'static str> = None;
}

impl<N: TrackedName> KnownName for N {
    const KNOWN: Option<&'static str> = Some(N::NAME);
}
