/// By-value setters for public fields: `field: Type` takes the value, `field: into Type` what turns into it.
macro_rules! setters {
    () => {};
    ($name:ident: into $type:ty $(, $($rest:tt)*)?) => {
        #[doc = concat!("Sets [`", stringify!($name), "`](Self#structfield.", stringify!($name), ").")]
        #[must_use]
        pub fn $name(mut self, $name: impl Into<$type>) -> Self {
            self.$name = $name.into();
            self
        }
        setters! { $($($rest)*)? }
    };
    ($name:ident: $type:ty $(, $($rest:tt)*)?) => {
        #[doc = concat!("Sets [`", stringify!($name), "`](Self#structfield.", stringify!($name), ").")]
        #[must_use]
        pub fn $name(mut self, $name: $type) -> Self {
            self.$name = $name;
            self
        }
        setters! { $($($rest)*)? }
    };
}

pub(crate) use setters;
