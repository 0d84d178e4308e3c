//! The registered names as a list in the type system: an end, a node, and one trait that walks it.

use std::any::TypeId;
use std::borrow::Cow;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::handlers::Handlers;
use crate::pace::Pace;
use crate::retry::Retries;
use crate::{Backend, Mark, Publish, Record, Statements};

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

    /// What is registered under `name`.
    fn find(&self, name: &str) -> Option<&Arc<Registered>>;

    /// Everything that is registered, in the order of registration.
    fn all<'a>(&'a self, all: &mut Vec<&'a Registered>);
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

    /// Does it.
    fn visit<R>(self) -> impl Future<Output = Self::Output> + Send
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

    fn all<'a>(&'a self, _all: &mut Vec<&'a Registered>) {}
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
        let registered = Arc::new(Registered {
            name,
            record: TypeId::of::<R>(),
            unidentified: AtomicBool::new(false),
            pace: Pace::default(),
            retries: Retries::default(),
            handlers: Handlers::default(),
        });
        Self {
            registered,
            before,
            types: PhantomData,
        }
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

    fn all<'a>(&'a self, all: &mut Vec<&'a Registered>) {
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
            Some(visit.visit::<R>().await)
        } else {
            self.before.walk(name, visit).await
        }
    }
}

/// What is known of a registered name beside its record type.
#[derive(Debug)]
pub struct Registered {
    name: Cow<'static, str>,
    record: TypeId,
    unidentified: AtomicBool,
    pub(crate) pace: Pace,
    pub(crate) retries: Retries,
    pub(crate) handlers: Handlers,
}

impl Registered {
    pub(crate) fn name(&self) -> &str {
        &self.name
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
