use std::cmp::Ordering;

use servicebus_amqp::types::Uuid;

use super::{
    EvaluateError, Record, Scalar,
    parser::{Comparison, Expression, Operator, Property, Scope},
};

/// What an expression is for a message; `None` is null and unknown.
pub(super) fn evaluate(
    expression: &Expression,
    record: &Record,
) -> Result<Option<Scalar>, EvaluateError> {
    Ok(match expression {
        Expression::Constant(constant) => constant.clone(),
        Expression::Property(property) => value_of(property, record)?,
        Expression::PropertyNamed(name) => match evaluate(name, record)? {
            Some(Scalar::Text(name)) => record.user(&name).and_then(Scalar::from_value),
            Some(other) => {
                return Err(EvaluateError(format!(
                    "the name of a property is text, and not {}",
                    other.kind()
                )));
            }
            None => None,
        },
        Expression::NewId => Some(Scalar::Uuid(new_id(record))),
        Expression::Negate(operand) => match evaluate(operand, record)? {
            None => None,
            Some(Scalar::Int(v)) => Some(Scalar::Int(v.checked_neg().ok_or_else(overflow)?)),
            Some(Scalar::Float(v)) => Some(Scalar::Float(-v)),
            Some(other) => {
                return Err(EvaluateError(format!("{} has no negative", other.kind())));
            }
        },
        Expression::Not(operand) => truth(operand, record)?.map(|truth| Scalar::Bool(!truth)),
        Expression::And(operands) => kleene(operands, record, false)?,
        Expression::Or(operands) => kleene(operands, record, true)?,
        Expression::Arithmetic(first, rest) => {
            let mut sum = evaluate(first, record)?;
            for (operator, operand) in rest {
                let operand = evaluate(operand, record)?;
                sum = match (sum, operand) {
                    (Some(a), Some(b)) => Some(arithmetic(&a, *operator, &b)?),
                    _ => None,
                };
            }
            sum
        }
        Expression::Compare(left, comparison, right) => {
            let (left, right) = (evaluate(left, record)?, evaluate(right, record)?);
            match (left, right) {
                (Some(a), Some(b)) => Some(Scalar::Bool(holds(*comparison, a.compare(&b)?))),
                _ => None,
            }
        }
        Expression::IsNull(operand) => Some(Scalar::Bool(evaluate(operand, record)?.is_none())),
        Expression::Exists(property) => {
            let exists = match property.scope {
                Scope::User => record.user(&property.name).is_some(),
                Scope::System => record.system(&property.name)?.is_some(),
            };
            Some(Scalar::Bool(exists))
        }
        Expression::In(operand, list) => {
            let Some(wanted) = evaluate(operand, record)? else {
                return Ok(None);
            };
            let mut unknown = false;
            for element in list {
                match evaluate(element, record)? {
                    Some(element) if element.compare(&wanted)? == Some(Ordering::Equal) => {
                        return Ok(Some(Scalar::Bool(true)));
                    }
                    Some(_) => {}
                    None => unknown = true,
                }
            }
            (!unknown).then_some(Scalar::Bool(false))
        }
        Expression::Like {
            text,
            pattern,
            escape,
        } => like(text, pattern, escape.as_deref(), record)?.map(Scalar::Bool),
    })
}

fn value_of(property: &Property, record: &Record) -> Result<Option<Scalar>, EvaluateError> {
    match property.scope {
        Scope::User => Ok(record.user(&property.name).and_then(Scalar::from_value)),
        Scope::System => record.system(&property.name),
    }
}

fn truth(expression: &Expression, record: &Record) -> Result<Option<bool>, EvaluateError> {
    match evaluate(expression, record)? {
        None => Ok(None),
        Some(Scalar::Bool(truth)) => Ok(Some(truth)),
        Some(other) => Err(EvaluateError(format!(
            "expected true or false, found {}",
            other.kind()
        ))),
    }
}

/// AND (`decisive` false) and OR (`decisive` true): one decisive operand decides, else one unknown leaves it unknown.
fn kleene(
    operands: &[Expression],
    record: &Record,
    decisive: bool,
) -> Result<Option<Scalar>, EvaluateError> {
    let mut unknown = false;
    for operand in operands {
        match truth(operand, record)? {
            Some(truth) if truth == decisive => return Ok(Some(Scalar::Bool(decisive))),
            Some(_) => {}
            None => unknown = true,
        }
    }
    Ok((!unknown).then_some(Scalar::Bool(!decisive)))
}

fn holds(comparison: Comparison, order: Option<Ordering>) -> bool {
    match comparison {
        Comparison::Equal => order == Some(Ordering::Equal),
        Comparison::NotEqual => order != Some(Ordering::Equal),
        Comparison::Less => order == Some(Ordering::Less),
        Comparison::LessOrEqual => matches!(order, Some(Ordering::Less | Ordering::Equal)),
        Comparison::Greater => order == Some(Ordering::Greater),
        Comparison::GreaterOrEqual => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
    }
}

fn overflow() -> EvaluateError {
    EvaluateError("the number is out of range".to_owned())
}

fn arithmetic(a: &Scalar, operator: Operator, b: &Scalar) -> Result<Scalar, EvaluateError> {
    match (a, b) {
        (Scalar::Int(a), Scalar::Int(b)) => {
            let divides = matches!(operator, Operator::Divide | Operator::Remainder);
            if divides && *b == 0 {
                return Err(EvaluateError("division by zero".to_owned()));
            }
            match operator {
                Operator::Add => a.checked_add(*b),
                Operator::Subtract => a.checked_sub(*b),
                Operator::Multiply => a.checked_mul(*b),
                Operator::Divide => a.checked_div(*b),
                Operator::Remainder => a.checked_rem(*b),
            }
            .map(Scalar::Int)
            .ok_or_else(overflow)
        }
        (Scalar::Int(_) | Scalar::Float(_), Scalar::Int(_) | Scalar::Float(_)) => {
            let (a, b) = (a.as_float(), b.as_float());
            Ok(Scalar::Float(match operator {
                Operator::Add => a + b,
                Operator::Subtract => a - b,
                Operator::Multiply => a * b,
                Operator::Divide => a / b,
                Operator::Remainder => a % b,
            }))
        }
        (Scalar::Text(a), Scalar::Text(b)) if operator == Operator::Add => {
            Ok(Scalar::Text(format!("{a}{b}").into()))
        }
        _ => Err(EvaluateError(format!(
            "one cannot reckon with {} and {}",
            a.kind(),
            b.kind()
        ))),
    }
}

fn like(
    text: &Expression,
    pattern: &Expression,
    escape: Option<&Expression>,
    record: &Record,
) -> Result<Option<bool>, EvaluateError> {
    let escape = match escape.map(|escape| evaluate(escape, record)).transpose()? {
        None => None,
        Some(Some(Scalar::Text(text))) if text.chars().count() == 1 => text.chars().next(),
        Some(_) => {
            return Err(EvaluateError(
                "ESCAPE must be a text of one character".to_owned(),
            ));
        }
    };
    let (text, pattern) = match (evaluate(text, record)?, evaluate(pattern, record)?) {
        (None, _) | (_, None) => return Ok(None),
        (Some(Scalar::Text(text)), Some(Scalar::Text(pattern))) => (text, pattern),
        (Some(a), Some(b)) => {
            return Err(EvaluateError(format!(
                "LIKE is for text, and not for {} and {}",
                a.kind(),
                b.kind()
            )));
        }
    };
    Ok(Some(matches_pattern(&text, &pattern, escape)))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Any,
    One,
    Exactly(char),
}

/// Whether a text is like a pattern, from its first to its last character.
fn matches_pattern(text: &str, pattern: &str, escape: Option<char>) -> bool {
    let mut parts = Vec::new();
    let mut characters = pattern.chars();
    while let Some(c) = characters.next() {
        parts.push(match c {
            c if Some(c) == escape => Part::Exactly(characters.next().unwrap_or(c)),
            '%' => Part::Any,
            '_' => Part::One,
            c => Part::Exactly(c),
        });
    }
    let text: Vec<char> = text.chars().collect();
    // On a mismatch, only the latest % needs to take one character more.
    let (mut t, mut p) = (0, 0);
    let mut retry = None;
    while let Some(c) = text.get(t) {
        match parts.get(p) {
            Some(Part::Any) => {
                retry = Some((t, p));
                p += 1;
            }
            Some(part) if *part == Part::One || *part == Part::Exactly(*c) => {
                t += 1;
                p += 1;
            }
            _ => match retry {
                Some((start, any)) => {
                    retry = Some((start + 1, any));
                    t = start + 1;
                    p = any + 1;
                }
                None => return false,
            },
        }
    }
    parts
        .get(p..)
        .is_some_and(|rest| rest.iter().all(|part| *part == Part::Any))
}

/// A uuid that depends on nothing but the message, so that runs can be repeated.
fn new_id(record: &Record) -> Uuid {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let half = |salt: u8| {
        let mut hasher = DefaultHasher::new();
        salt.hash(&mut hasher);
        format!("{record:?}").hash(&mut hasher);
        hasher.finish()
    };
    uuid::Builder::from_u128((u128::from(half(0)) << 64) | u128::from(half(1)))
        .with_version(uuid::Version::Random)
        .with_variant(uuid::Variant::RFC4122)
        .into_uuid()
}
