use servicebus_amqp::types::Value;

use super::{
    MAX_DEPTH, MAX_STATEMENTS, ParseError, Scalar,
    lexer::{Token, tokens},
};

/// An expression; nested at most [`MAX_DEPTH`] deep but for runs of one operator.
#[derive(Clone, Debug)]
pub(super) enum Expression {
    Constant(Option<Scalar>),
    Property(Property),
    /// `property(name)`: an application property by a name that is reckoned.
    PropertyNamed(Box<Self>),
    NewId,
    Negate(Box<Self>),
    Not(Box<Self>),
    And(Vec<Self>),
    Or(Vec<Self>),
    Arithmetic(Box<Self>, Vec<(Operator, Self)>),
    Compare(Box<Self>, Comparison, Box<Self>),
    IsNull(Box<Self>),
    Exists(Property),
    In(Box<Self>, Vec<Self>),
    Like {
        text: Box<Self>,
        pattern: Box<Self>,
        escape: Option<Box<Self>>,
    },
}

#[derive(Clone, Debug)]
pub(super) struct Property {
    pub(super) scope: Scope,
    pub(super) name: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    System,
    User,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// A statement of an action.
#[derive(Clone, Debug)]
pub(super) enum Statement {
    Set(Property, Expression),
    Remove(Property),
}

pub(super) fn parse_filter(
    text: &str,
    parameters: &[(&str, Value)],
) -> Result<Expression, ParseError> {
    let mut parser = Parser::new(text, parameters)?;
    let expression = parser.disjunction()?;
    match parser.peek() {
        Token::End => Ok(expression),
        other => parser.fail(format!("expected the end, found {}", other.describe())),
    }
}

pub(super) fn parse_action(
    text: &str,
    parameters: &[(&str, Value)],
) -> Result<Vec<Statement>, ParseError> {
    let mut parser = Parser::new(text, parameters)?;
    let mut statements = Vec::new();
    while *parser.peek() != Token::End {
        if statements.len() == MAX_STATEMENTS {
            return parser.fail(format!("more than {MAX_STATEMENTS} statements"));
        }
        if parser.eat_keyword("SET") {
            let property = parser.property()?;
            parser.expect("=")?;
            statements.push(Statement::Set(property, parser.sum()?));
        } else if parser.eat_keyword("REMOVE") {
            statements.push(Statement::Remove(parser.property()?));
        } else {
            let found = parser.peek().describe();
            return parser.fail(format!("expected SET or REMOVE, found {found}"));
        }
        parser.eat(";");
    }
    if statements.is_empty() {
        return parser.fail("expected SET or REMOVE, found the end");
    }
    Ok(statements)
}

const KEYWORDS: [&str; 13] = [
    "AND", "OR", "NOT", "IS", "NULL", "IN", "LIKE", "ESCAPE", "EXISTS", "TRUE", "FALSE", "SET",
    "REMOVE",
];

struct Parser<'a> {
    tokens: Vec<(usize, Token)>,
    at: usize,
    depth: usize,
    parameters: &'a [(&'a str, Value)],
}

impl<'a> Parser<'a> {
    fn new(text: &str, parameters: &'a [(&'a str, Value)]) -> Result<Self, ParseError> {
        Ok(Self {
            tokens: tokens(text)?,
            at: 0,
            depth: 0,
            parameters,
        })
    }

    fn peek_at(&self, ahead: usize) -> &Token {
        self.tokens
            .get(self.at + ahead)
            .map_or(&Token::End, |(_, token)| token)
    }

    fn peek(&self) -> &Token {
        self.peek_at(0)
    }

    fn fail<T>(&self, message: impl Into<String>) -> Result<T, ParseError> {
        let position = self
            .tokens
            .get(self.at)
            .or_else(|| self.tokens.last())
            .map_or(1, |(position, _)| *position);
        Err(ParseError::new(position, message))
    }

    fn eat(&mut self, symbol: &'static str) -> bool {
        let found = *self.peek() == Token::Symbol(symbol);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, symbol: &'static str) -> Result<(), ParseError> {
        if self.eat(symbol) {
            return Ok(());
        }
        let found = self.peek().describe();
        self.fail(format!("expected '{symbol}', found {found}"))
    }

    fn is_keyword(&self, ahead: usize, keyword: &str) -> bool {
        matches!(self.peek_at(ahead), Token::Word(word) if word.eq_ignore_ascii_case(keyword))
    }

    fn eat_keyword(&mut self, keyword: &str) -> bool {
        let found = self.is_keyword(0, keyword);
        self.at += usize::from(found);
        found
    }

    /// Goes one level deeper.
    fn nested<T>(
        &mut self,
        parse: impl FnOnce(&mut Self) -> Result<T, ParseError>,
    ) -> Result<T, ParseError> {
        if self.depth == MAX_DEPTH {
            return self.fail(format!("nested more than {MAX_DEPTH} deep"));
        }
        self.depth += 1;
        let parsed = parse(self);
        self.depth -= 1;
        parsed
    }

    fn disjunction(&mut self) -> Result<Expression, ParseError> {
        let first = self.conjunction()?;
        if !self.is_keyword(0, "OR") {
            return Ok(first);
        }
        let mut operands = vec![first];
        while self.eat_keyword("OR") {
            operands.push(self.conjunction()?);
        }
        Ok(Expression::Or(operands))
    }

    fn conjunction(&mut self) -> Result<Expression, ParseError> {
        let first = self.negation()?;
        if !self.is_keyword(0, "AND") {
            return Ok(first);
        }
        let mut operands = vec![first];
        while self.eat_keyword("AND") {
            operands.push(self.negation()?);
        }
        Ok(Expression::And(operands))
    }

    fn negation(&mut self) -> Result<Expression, ParseError> {
        if self.eat_keyword("NOT") {
            let operand = self.nested(Self::negation)?;
            return Ok(Expression::Not(Box::new(operand)));
        }
        self.predicate()
    }

    fn predicate(&mut self) -> Result<Expression, ParseError> {
        if self.eat_keyword("EXISTS") {
            self.expect("(")?;
            let property = self.property()?;
            self.expect(")")?;
            return Ok(Expression::Exists(property));
        }
        let left = self.sum()?;
        let comparison = match self.peek() {
            Token::Symbol("=") => Some(Comparison::Equal),
            Token::Symbol("<>" | "!=") => Some(Comparison::NotEqual),
            Token::Symbol("<") => Some(Comparison::Less),
            Token::Symbol("<=") => Some(Comparison::LessOrEqual),
            Token::Symbol(">") => Some(Comparison::Greater),
            Token::Symbol(">=") => Some(Comparison::GreaterOrEqual),
            _ => None,
        };
        if let Some(comparison) = comparison {
            self.at += 1;
            let right = self.sum()?;
            return Ok(Expression::Compare(
                Box::new(left),
                comparison,
                Box::new(right),
            ));
        }
        if self.is_keyword(0, "IS") {
            if !matches!(left, Expression::Property(_) | Expression::PropertyNamed(_)) {
                return self.fail("only a property can be compared with NULL");
            }
            self.at += 1;
            let negated = self.eat_keyword("NOT");
            if !self.eat_keyword("NULL") {
                let found = self.peek().describe();
                return self.fail(format!("expected NULL, found {found}"));
            }
            return Ok(not_if(negated, Expression::IsNull(Box::new(left))));
        }
        let negated =
            self.is_keyword(0, "NOT") && (self.is_keyword(1, "IN") || self.is_keyword(1, "LIKE"));
        self.at += usize::from(negated);
        if self.eat_keyword("IN") {
            self.expect("(")?;
            let mut list = vec![self.sum()?];
            while self.eat(",") {
                list.push(self.sum()?);
            }
            self.expect(")")?;
            return Ok(not_if(negated, Expression::In(Box::new(left), list)));
        }
        if self.eat_keyword("LIKE") {
            let pattern = Box::new(self.sum()?);
            let escape = if self.eat_keyword("ESCAPE") {
                Some(Box::new(self.sum()?))
            } else {
                None
            };
            let like = Expression::Like {
                text: Box::new(left),
                pattern,
                escape,
            };
            return Ok(not_if(negated, like));
        }
        Ok(left)
    }

    fn sum(&mut self) -> Result<Expression, ParseError> {
        self.run(Self::product, |token| match token {
            Token::Symbol("+") => Some(Operator::Add),
            Token::Symbol("-") => Some(Operator::Subtract),
            _ => None,
        })
    }

    fn product(&mut self) -> Result<Expression, ParseError> {
        self.run(Self::unary, |token| match token {
            Token::Symbol("*") => Some(Operator::Multiply),
            Token::Symbol("/") => Some(Operator::Divide),
            Token::Symbol("%") => Some(Operator::Remainder),
            _ => None,
        })
    }

    /// Operands joined by operators of one precedence.
    fn run(
        &mut self,
        operand: fn(&mut Self) -> Result<Expression, ParseError>,
        operator: fn(&Token) -> Option<Operator>,
    ) -> Result<Expression, ParseError> {
        let first = operand(self)?;
        let mut rest = Vec::new();
        while let Some(operator) = operator(self.peek()) {
            self.at += 1;
            rest.push((operator, operand(self)?));
        }
        Ok(if rest.is_empty() {
            first
        } else {
            Expression::Arithmetic(Box::new(first), rest)
        })
    }

    fn unary(&mut self) -> Result<Expression, ParseError> {
        if self.eat("-") {
            let operand = self.nested(Self::unary)?;
            return Ok(Expression::Negate(Box::new(operand)));
        }
        if self.eat("+") {
            return self.nested(Self::unary);
        }
        self.primary()
    }

    fn primary(&mut self) -> Result<Expression, ParseError> {
        let constant = match self.peek() {
            Token::Text(text) => Scalar::Text(text.as_str().into()),
            Token::Integer(number) => Scalar::Int((*number).into()),
            Token::Float(number) => Scalar::Float(*number),
            Token::Parameter(name) => {
                let found = self
                    .parameters
                    .iter()
                    .find(|(known, _)| known.eq_ignore_ascii_case(name));
                let Some((_, value)) = found else {
                    return self.fail(format!("there is no parameter @{name}"));
                };
                let constant = Scalar::from_value(value);
                self.at += 1;
                return Ok(Expression::Constant(constant));
            }
            Token::Symbol("(") => {
                self.at += 1;
                let inner = self.nested(Self::disjunction)?;
                self.expect(")")?;
                return Ok(inner);
            }
            Token::Word(_) if self.is_keyword(0, "TRUE") => Scalar::Bool(true),
            Token::Word(_) if self.is_keyword(0, "FALSE") => Scalar::Bool(false),
            Token::Word(_) if self.is_keyword(0, "NULL") => {
                self.at += 1;
                return Ok(Expression::Constant(None));
            }
            Token::Word(word) if *self.peek_at(1) == Token::Symbol("(") && !is_keyword(word) => {
                return self.function();
            }
            Token::Word(word) if is_keyword(word) => {
                let found = word.to_ascii_uppercase();
                return self.fail(format!("expected an expression, found {found}"));
            }
            Token::Word(_) | Token::Name(_) => return self.property().map(Expression::Property),
            other => {
                let found = other.describe();
                return self.fail(format!("expected an expression, found {found}"));
            }
        };
        self.at += 1;
        Ok(Expression::Constant(Some(constant)))
    }

    fn function(&mut self) -> Result<Expression, ParseError> {
        if self.is_keyword(0, "newid") {
            self.at += 2;
            self.expect(")")?;
            return Ok(Expression::NewId);
        }
        if self.is_keyword(0, "property") || self.is_keyword(0, "p") {
            self.at += 2;
            let name = self.nested(Self::sum)?;
            self.expect(")")?;
            return Ok(Expression::PropertyNamed(Box::new(name)));
        }
        let name = self.peek().describe();
        self.fail(format!("there is no function {name}"))
    }

    fn property(&mut self) -> Result<Property, ParseError> {
        let scope = match self.peek() {
            Token::Word(word) if *self.peek_at(1) == Token::Symbol(".") => {
                if word.eq_ignore_ascii_case("sys") {
                    Some(Scope::System)
                } else if word.eq_ignore_ascii_case("user") {
                    Some(Scope::User)
                } else {
                    let scope = word.clone();
                    return self.fail(format!("expected sys or user before '.', found '{scope}'"));
                }
            }
            _ => None,
        };
        if scope.is_some() {
            self.at += 2;
        }
        let name = match self.peek() {
            Token::Name(name) if name.is_empty() => return self.fail("an empty name"),
            Token::Name(name) => name.clone(),
            // After a scope, even a keyword is a name.
            Token::Word(word) if scope.is_some() || !is_keyword(word) => word.clone(),
            other => {
                let found = other.describe();
                return self.fail(format!("expected the name of a property, found {found}"));
            }
        };
        self.at += 1;
        Ok(Property {
            scope: scope.unwrap_or(Scope::User),
            name,
        })
    }
}

fn is_keyword(word: &str) -> bool {
    KEYWORDS
        .iter()
        .any(|keyword| keyword.eq_ignore_ascii_case(word))
}

fn not_if(negated: bool, expression: Expression) -> Expression {
    if negated {
        Expression::Not(Box::new(expression))
    } else {
        expression
    }
}
