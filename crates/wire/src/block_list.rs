//! The enum of a wire's blocks, from one list of them.

/// Lists the blocks of a wire once: those with a body, and behind `---` those that consist of their type alone.
///
/// Each body is a type with `KIND`, `decode(flags, body)`, `encoded_len()` and `encode(writer)`; one without fields
/// has a `Default` too.
macro_rules! block_list {
    (
        $(#[$enum_doc:meta])*
        pub enum $enum:ident;

        $($(#[$doc:meta])* $name:ident($body:ty),)+
        ---
        $($(#[$empty_doc:meta])* $empty:ident,)+
    ) => {
        $(#[$enum_doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $enum<'a> {
            $($(#[$doc])* $name($body),)+
            $($(#[$empty_doc])* $empty,)+
        }

        impl<'a> $enum<'a> {
            /// Type of the block on the wire.
            pub fn kind(&self) -> u8 {
                match self {
                    $(Self::$name(_) => <$body>::KIND,)+
                    $(Self::$empty => $empty::KIND,)+
                }
            }

            /// Bytes on the wire, with header and padding.
            pub fn encoded_len(&self) -> usize {
                match self {
                    $(Self::$name(block) => block.encoded_len(),)+
                    $(Self::$empty => $empty::default().encoded_len(),)+
                }
            }

            /// Appends the block.
            pub fn encode(&self, w: &mut $crate::writer::Writer<'_>) {
                match self {
                    $(Self::$name(block) => block.encode(w),)+
                    $(Self::$empty => $empty::default().encode(w),)+
                }
            }

            /// Reads the block; `None` if its type is not in the list.
            #[inline]
            fn decode_known(
                frame: $crate::frame::RawBlock<'a>,
            ) -> Result<Option<Self>, $crate::decode_error::DecodeError> {
                let $crate::frame::RawBlock { kind, flags, body, .. } = frame;
                Ok(Some(match kind {
                    $(<$body>::KIND => Self::$name(<$body>::decode(flags, body)?),)+
                    $($empty::KIND => $empty::decode(flags, body).map(|_| Self::$empty)?,)+
                    _ => return Ok(None),
                }))
            }
        }
    };
}

pub(crate) use block_list;
