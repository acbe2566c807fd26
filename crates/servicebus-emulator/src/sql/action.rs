use std::{fmt, sync::Arc};

use servicebus_amqp::types::Value;

use super::{
    EvaluateError, ParseError, Record,
    evaluate::evaluate,
    parser::{self, Scope, Statement},
};

/// An action: what a rule changes in the copy of a message that it makes.
#[derive(Clone)]
pub struct Action {
    text: Arc<str>,
    statements: Arc<[Statement]>,
}

impl Action {
    /// Reads an action. Parameters as for [`Filter::parse`](super::Filter::parse).
    ///
    /// # Errors
    ///
    /// When the text is no action, is too long, nests too deep or has too many statements.
    pub fn parse(text: &str, parameters: &[(&str, Value)]) -> Result<Self, ParseError> {
        Ok(Self {
            text: text.into(),
            statements: parser::parse_action(text, parameters)?.into(),
        })
    }

    /// The text that the action was read from.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Changes a message, statement by statement.
    ///
    /// A value that is unknown leaves its property as it was.
    ///
    /// # Errors
    ///
    /// When operands do not go together, or a system property does not exist or cannot be changed.
    pub fn apply(&self, record: &mut Record) -> Result<(), EvaluateError> {
        for statement in &*self.statements {
            match statement {
                Statement::Set(property, expression) => {
                    let Some(scalar) = evaluate(expression, record)? else {
                        continue;
                    };
                    match property.scope {
                        Scope::User => record.set_user(&property.name, &scalar),
                        Scope::System => record.set_system(&property.name, Some(scalar))?,
                    }
                }
                Statement::Remove(property) => match property.scope {
                    Scope::User => record.remove_user(&property.name),
                    Scope::System => record.set_system(&property.name, None)?,
                },
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Action({:?})", self.text)
    }
}
