//! The sets: how each is marked, how long its answers are, and what its prompt says in our words.

/// How the answers of a set are marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    F1,
    F1Chinese,
    Rouge,
    RougeChinese,
    Classification,
    Count,
    Retrieval,
    Code,
}

/// One set.
#[derive(Debug)]
pub(super) struct Set {
    pub(super) name: &'static str,
    pub(super) mark: Mark,
    /// Tokens of an answer; the published numbers.
    pub(super) max_new_tokens: usize,
    /// Whether only the first line of an answer counts, as the published code has it.
    pub(super) first_line: bool,
    pub(super) template: &'static str,
}

/// The set of that name.
pub(super) fn set(name: &str) -> Option<&'static Set> {
    SETS.iter().find(|set| set.name == name)
}

/// `` `a`, `b`, `c` ``
pub(super) fn names() -> String {
    SETS.iter().map(|set| format!("`{}`", set.name)).collect::<Vec<_>>().join(", ")
}

const fn plain(name: &'static str, mark: Mark, max_new_tokens: usize, template: &'static str) -> Set {
    Set { name, mark, max_new_tokens, first_line: false, template }
}

const fn of_a_line(name: &'static str, mark: Mark, max_new_tokens: usize, template: &'static str) -> Set {
    Set { name, mark, max_new_tokens, first_line: true, template }
}

const STORY: &str = "Below is a story, then a question about it. Answer with a short phrase and nothing else.\n\n\
Story: {context}\n\nQuestion: {input}\nAnswer:";
const PAPER: &str = "Below is a scientific paper, then a question about it. Answer with a short phrase, with yes or no, \
or with \"unanswerable\" where the paper does not say.\n\nPaper: {context}\n\nQuestion: {input}\nAnswer:";
const TEXT: &str = "Below is a text, then a question about it. Answer with a short phrase and nothing else.\n\n\
Text: {context}\n\nQuestion: {input}\nAnswer:";
const TEXT_ZH: &str =
    "请阅读下面的文章，然后用简短的话回答问题，不要写别的内容。\n\n文章：{context}\n\n问题：{input}\n回答：";
const PASSAGES: &str = "Below are several passages, then a question that takes more than one of them. Answer with a \
short phrase and nothing else.\n\nPassages:\n{context}\n\nQuestion: {input}\nAnswer:";
const PASSAGES_ZH: &str = "请根据下面的几篇文章回答问题。\n\n文章：{context}\n\n问题：{input}\n回答：";
const REPORT: &str =
    "Below is a government report. Summarize it on one page.\n\nReport:\n{context}\n\nSummary:";
const MEETING: &str = "Below is the transcript of a meeting, then a request. Answer it in one paragraph or more.\n\n\
Transcript:\n{context}\n\nRequest: {input}\nAnswer:";
const NEWS: &str = "Below are several news articles. Summarize all of them on one page.\n\nArticles:\n{context}\n\n\
Summary:";
const MEETING_ZH: &str = "下面是一段会议记录，请写出它的总结。\n\n会议记录：{context}\n\n总结：";
const KIND: &str = "Name the type of the last question, as in the examples.\n\n{context}\n{input}";
const QUIZ: &str = "Answer the last question from its passage with a name or a few words, as in the examples.\n\n\
{context}\n\n{input}";
const DIALOGUE: &str =
    "Summarize the last dialogue in a sentence or two, as in the examples.\n\n{context}\n\n{input}";
const NEWS_ZH: &str = "请像例子一样，写出最后一篇新闻的类别。\n\n{context}\n{input}";
const COUNT: &str = "Below are numbered paragraphs, some of which repeat others. How many different ones are there? \
Answer with the number and nothing else.\n\n{context}\n\nNumber of different paragraphs:";
const FIND: &str = "Below are numbered paragraphs, then a summary of one of them. Answer with that paragraph's name, \
such as \"Paragraph 1\".\n\n{context}\n\nSummary: {input}\nAnswer:";
const FIND_ZH: &str = "下面是编号的段落，最后是其中一段的摘要。请回答是哪一段，例如“段落1”。\n\n{context}\n\n摘要：{input}\n回答：";
const CODE: &str = "Write the next line of this program.\n\n{context}Next line:\n";
const REPOSITORY: &str = "Write the next line of this program.\n\n{context}{input}Next line:\n";

pub(super) const SETS: [Set; 21] = [
    plain("narrativeqa", Mark::F1, 128, STORY),
    plain("qasper", Mark::F1, 128, PAPER),
    plain("multifieldqa_en", Mark::F1, 64, TEXT),
    plain("multifieldqa_zh", Mark::F1Chinese, 64, TEXT_ZH),
    plain("hotpotqa", Mark::F1, 32, PASSAGES),
    plain("2wikimqa", Mark::F1, 32, PASSAGES),
    plain("musique", Mark::F1, 32, PASSAGES),
    plain("dureader", Mark::RougeChinese, 128, PASSAGES_ZH),
    plain("gov_report", Mark::Rouge, 512, REPORT),
    plain("qmsum", Mark::Rouge, 512, MEETING),
    plain("multi_news", Mark::Rouge, 512, NEWS),
    plain("vcsum", Mark::RougeChinese, 512, MEETING_ZH),
    of_a_line("trec", Mark::Classification, 64, KIND),
    of_a_line("triviaqa", Mark::F1, 32, QUIZ),
    of_a_line("samsum", Mark::Rouge, 128, DIALOGUE),
    of_a_line("lsht", Mark::Classification, 64, NEWS_ZH),
    plain("passage_count", Mark::Count, 32, COUNT),
    plain("passage_retrieval_en", Mark::Retrieval, 32, FIND),
    plain("passage_retrieval_zh", Mark::Retrieval, 32, FIND_ZH),
    plain("lcc", Mark::Code, 64, CODE),
    plain("repobench-p", Mark::Code, 64, REPOSITORY),
];
