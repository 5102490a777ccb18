// Texts of the review of a document, which i18n/index.js adds to the page's.

/** @type {Record<string, string>} */
export const english = {
  "review.title": "Review of {name}",
  "review.summary": "{count} texts, {first} to check first.",
  "review.quality": "Quality {percent}",
  "review.source": "Source",
  "review.target": "Translation of text {number}",
  "review.codes": "Put each code back once, or undo.",
  "review.undo": "Undo",
  "review.more": "Show {count} more",
  "review.save": "Save with these translations",
  "review.saved": "Saved as {name}",
};

/** @type {Record<string, string>} */
export const chinese = {
  "review.title": "检查 {name}",
  "review.summary": "共 {count} 段，其中 {first} 段应先检查。",
  "review.quality": "质量 {percent}",
  "review.source": "原文",
  "review.target": "第 {number} 段的译文",
  "review.codes": "每个标记都要保留一次，也可以撤销。",
  "review.undo": "撤销",
  "review.more": "再显示 {count} 段",
  "review.save": "用这些译文保存",
  "review.saved": "已保存为 {name}",
};
